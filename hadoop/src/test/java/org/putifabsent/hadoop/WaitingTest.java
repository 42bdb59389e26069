package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.test.GenericTestUtils.LogCapturer;
import org.junit.Test;
import org.slf4j.LoggerFactory;

/** A thread has waited for a table since it first asked, until it has the turn or has not asked for long. */
public class WaitingTest {

  private static final Duration PAUSE = Duration.ofSeconds(5);

  private final Name table = Name.of(new Path("file:/" + UUID.randomUUID()));
  private long seconds;

  private Waiting asked(Name of) {
    Waiting waiting = Waiting.of(of, PAUSE, () -> Duration.ofSeconds(seconds).toNanos());
    waiting.asks();
    return waiting;
  }

  private long waited() {
    return Duration.ofNanos(asked(table).nanos()).toSeconds();
  }

  @Test
  public void whoAsksAgainHasWaitedSinceTheFirstTime() {
    for (; seconds < 60; seconds += PAUSE.toSeconds()) {
      assertThat(waited()).isEqualTo(seconds);
    }
  }

  @Test
  public void whoAsksWithinOneTryHasAsked() {
    Waiting waiting = asked(table);
    for (; seconds < 60; seconds += PAUSE.toSeconds()) {
      waiting.asks();
    }
    assertThat(waited()).isEqualTo(60);
  }

  @Test
  public void whoHasNotAskedForLongBeginsAnew() {
    asked(table);
    seconds += PAUSE.toSeconds() + 1;
    assertThat(waited()).isZero();
  }

  @Test
  public void whoHasTheTurnBeginsAnew() {
    asked(table).ends();
    seconds++;
    assertThat(waited()).isZero();
  }

  @Test
  public void eachTableIsWaitedForByItself() {
    asked(table);
    seconds++;
    assertThat(asked(Name.of(new Path("file:/" + UUID.randomUUID()))).nanos()).isZero();
    assertThat(waited()).isEqualTo(1);
  }

  @Test
  public void eachThreadWaitsByItself() {
    asked(table);
    seconds++;
    assertThat(CompletableFuture.supplyAsync(this::waited).join()).isZero();
  }

  @Test
  public void itIsSaidAfterSomeSecondsAndThenEachMinuteThroughAllTries() {
    LogCapturer log = LogCapturer.captureLogs(LoggerFactory.getLogger(Waiting.class));
    for (; seconds <= 125; seconds++) {
      asked(table).isFor("another session");
    }
    log.stopCapturing();
    assertThat(log.getOutput().lines()).hasSize(3);
    assertThat(log.getOutput()).contains("5 s to write " + table + ": for another session", "65 s", "125 s");
  }
}
