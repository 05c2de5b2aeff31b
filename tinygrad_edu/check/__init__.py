"""Checks of derivatives: gradcheck and gradgradcheck hold the ops' rules to differences, and name the rule to blame."""

from tinygrad_edu.check.errors import Finding, GradcheckError, Verdict
from tinygrad_edu.check.gradcheck import gradcheck, gradgradcheck

__all__ = ["Finding", "GradcheckError", "Verdict", "gradcheck", "gradgradcheck"]
