package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.OptionalDouble;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.Test;

/** How old a creation is, by the clocks of a machine that may sleep. */
public class ElapsedTest {

  private final AtomicLong nanos = new AtomicLong(7);
  private final AtomicLong millis = new AtomicLong(1_767_225_600_000L);
  private final Elapsed elapsed = new Elapsed(nanos::get, millis::get);

  @Test
  public void whoCameWhileTheMachineSleptProvesNoLoss() {
    Refusal tenMinutesOld = new Refusal(Refusal.TAKEN, "what happened", OptionalDouble.of(600));
    nanos.addAndGet(Duration.ofSeconds(1).toNanos());
    assertThat(tenMinutesOld.provesLoss(elapsed.now())).isTrue();
    millis.addAndGet(Duration.ofHours(1).toMillis());
    assertThat(tenMinutesOld.provesLoss(elapsed.now())).isFalse();
  }

  @Test
  public void aClockThatIsSetBackTakesNothingAway() {
    nanos.addAndGet(Duration.ofSeconds(1).toNanos());
    millis.addAndGet(-Duration.ofHours(1).toMillis());
    assertThat(elapsed.now()).isEqualTo(Duration.ofSeconds(1));
  }
}
