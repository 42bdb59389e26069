package org.putifabsent.hadoop;

import java.time.Duration;

/** The time since this was made, or more: {@code nanoTime} stands still while the machine sleeps. */
final class Elapsed {

  private final long firstNanos;
  private final long firstMillis;

  Elapsed() {
    this(System.nanoTime(), System.currentTimeMillis());
  }

  Elapsed(long nanos, long millis) {
    firstNanos = nanos;
    firstMillis = millis;
  }

  Duration now() {
    return at(System.nanoTime(), System.currentTimeMillis());
  }

  /** Returns it for when another one began. */
  Duration until(Elapsed later) {
    return at(later.firstNanos, later.firstMillis);
  }

  /** Returns it for when both clocks show this. */
  Duration at(long nanos, long millis) {
    Duration awake = Duration.ofNanos(nanos - firstNanos);
    // It may be set back meanwhile.
    Duration byTheClock = Duration.ofMillis(millis - firstMillis);
    return byTheClock.compareTo(awake) > 0 ? byTheClock : awake;
  }
}
