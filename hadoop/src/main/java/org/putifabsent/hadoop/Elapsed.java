package org.putifabsent.hadoop;

import java.time.Duration;
import java.util.function.LongSupplier;

/** The time since this was made, or more: {@code nanoTime} stands still while the machine sleeps. */
final class Elapsed {

  private final LongSupplier nanos;
  private final LongSupplier millis;
  private final long firstNanos;
  private final long firstMillis;

  Elapsed() {
    this(System::nanoTime, System::currentTimeMillis);
  }

  Elapsed(LongSupplier nanos, LongSupplier millis) {
    this.nanos = nanos;
    this.millis = millis;
    firstNanos = nanos.getAsLong();
    firstMillis = millis.getAsLong();
  }

  Duration now() {
    Duration awake = Duration.ofNanos(nanos.getAsLong() - firstNanos);
    // It may be set back meanwhile.
    Duration byTheClock = Duration.ofMillis(millis.getAsLong() - firstMillis);
    return byTheClock.compareTo(awake) > 0 ? byTheClock : awake;
  }
}
