// Starts all parts, then opens the first drawing.
import { openSheet, startSheets } from "./sheets.js";
import { startView } from "./view.js";
import { startCards } from "./cards.js";
import { startAxes } from "./axes.js";
import { startSteps } from "./steps.js";
import { startQuiz } from "./quiz.js";
import { startFind } from "./find.js";
import { startLedger } from "./ledger.js";
import { startFile } from "./file.js";
import { startKeys } from "./keys.js";

for (const start of [
  startView,
  startSheets,
  startLedger,
  startQuiz,
  startCards,
  startSteps,
  startAxes,
  startFind,
  startFile,
  startKeys,
])
  start();
const first = document.querySelector('[role="tab"][aria-selected="true"]');
await openSheet(Number(first.dataset.sheet));
