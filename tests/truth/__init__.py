"""Truth under lost answers, on the fault stub."""
