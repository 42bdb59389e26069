package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
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
      IOException error = new Refusal(kind, "what happened").asHadoopSays();
      assertThat(error.getClass().getName()).isEqualTo(table.getProperty(kind));
      assertThat(error).hasMessageContaining("what happened");
    }
  }

  @Test
  public void aWordThatNobodyKnowsIsAnIoException() {
    assertThat(new Refusal("newer than this jar", "why").asHadoopSays()).isExactlyInstanceOf(IOException.class);
  }
}
