// Starts all parts, then opens the first drawing.
import { known } from "./tools.js";
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

// In this order they hear of another drawing: each finds done what it builds on.
for (const start of [
  startView,
  startSheets,
  startLedger,
  startCards,
  startSteps,
  startQuiz,
  startAxes,
  startFind,
  startFile,
  startKeys,
])
  start();
await openSheet(known.first);
