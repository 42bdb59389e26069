"""How likely is a collision? Writers that take their timestamps from their own clocks, simulated.

The experiments are those of "Understanding Apache Hudi's Consistency Model, Part 2" (Jack Vanlightly, 2024),
whose numbers are in ``published-collisions.csv``; any other can be run the same way. Wants numpy.
"""

from putifabsent.lab.simulate.experiment import Cell, Experiment
from putifabsent.lab.simulate.running import runs, simulate

__all__ = ["Cell", "Experiment", "runs", "simulate"]
