package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.OptionalDouble;
import java.util.Properties;
import org.junit.Test;

/** Each of the service's errors is the exception that the table says. */
public class RefusalTest {

  @Test
  public void everyWordIsItsException() throws IOException {
    Properties table = new Properties();
    try (InputStream file = Refusal.class.getResourceAsStream("errors.properties")) {
      table.load(file);
    }
    assertThat(table).isNotEmpty();
    for (String kind : table.stringPropertyNames()) {
      IOException error = refusal(kind, OptionalDouble.empty()).asHadoopSays();
      assertThat(error.getClass().getName()).isEqualTo(table.getProperty(kind));
      assertThat(error).hasMessageContaining("what happened");
    }
  }

  @Test
  public void aWordThatNobodyKnowsIsAnIoException() {
    assertThat(refusal("newer than this jar", OptionalDouble.empty()).asHadoopSays())
        .isExactlyInstanceOf(IOException.class);
  }

  @Test
  public void onlyAHolderThatIsOlderThanACreationProvesItsLoss() {
    Duration begun = Duration.ofSeconds(2);
    assertThat(refusal(Refusal.TAKEN, OptionalDouble.of(2.1)).provesLoss(begun)).isTrue();
    assertThat(refusal(Refusal.TAKEN, OptionalDouble.of(2.0)).provesLoss(begun)).isFalse();
    assertThat(refusal(Refusal.TAKEN, OptionalDouble.empty()).provesLoss(begun)).isFalse();
    assertThat(refusal("unknown", OptionalDouble.of(2.1)).provesLoss(begun)).isFalse();
  }

  private static Refusal refusal(String kind, OptionalDouble age) {
    return new Refusal(kind, "what happened", age);
  }
}
