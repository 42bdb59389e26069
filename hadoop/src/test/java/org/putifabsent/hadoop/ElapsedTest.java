package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.OptionalDouble;
import org.junit.Test;

/** How old a creation is, by the clocks of a machine that may sleep. */
public class ElapsedTest {

  private static final long NANOS = 7;
  private static final long MILLIS = 1_767_225_600_000L;
  private static final long SECOND_LATER = NANOS + Duration.ofSeconds(1).toNanos();
  private static final long HOUR = Duration.ofHours(1).toMillis();

  private final Elapsed elapsed = new Elapsed(NANOS, MILLIS);

  @Test
  public void whoCameWhileTheMachineSleptProvesNoLoss() {
    Refusal tenMinutesOld = new Refusal(Refusal.TAKEN, "what happened", OptionalDouble.of(600));
    assertThat(tenMinutesOld.provesLoss(elapsed.at(SECOND_LATER, MILLIS))).isTrue();
    assertThat(tenMinutesOld.provesLoss(elapsed.at(SECOND_LATER, MILLIS + HOUR))).isFalse();
  }

  @Test
  public void aClockThatIsSetBackTakesNothingAway() {
    assertThat(elapsed.at(SECOND_LATER, MILLIS - HOUR)).isEqualTo(Duration.ofSeconds(1));
  }
}
