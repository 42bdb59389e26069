"""The stress bench: many writers and faults on each path to a store, and a judgement of the outcomes."""
