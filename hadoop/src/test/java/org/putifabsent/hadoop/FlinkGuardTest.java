package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.Set;
import org.apache.flink.configuration.IllegalConfigurationException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.junit.Test;

/** Flink's own settings may add to what Hadoop's files say, and not change what guards. */
public class FlinkGuardTest {

  private static Configuration files() {
    Configuration files = ServiceProcess.session(RawLocalFileSystem.class);
    files.set("fs.s3a.impl", GuardedFileSystem.class.getName());
    return files;
  }

  @Test
  public void whatGuardsIsNotChanged() {
    Configuration files = files();
    for (String key : List.of("fs.s3a.impl", "fs.AbstractFileSystem.s3a.impl", Settings.ADDRESS, Settings.SESSION)) {
      Configuration flinks = new Configuration(files);
      flinks.set(key, "another");
      assertThatThrownBy(() -> FlinkGuard.checkUnchanged(Set.of("s3a"), files, flinks))
          .isInstanceOf(IllegalConfigurationException.class)
          .hasMessageContaining("change " + key)
          .hasMessageContaining("remove flink.hadoop." + key);
    }
  }

  @Test
  public void allElseMayBe() {
    Configuration files = files();
    Configuration flinks = new Configuration(files);
    flinks.set("fs.s3.impl", "another");
    flinks.set("fs.s3a.endpoint", "http://127.0.0.1:9");
    flinks.set(Settings.DEADLINE, "5s");
    assertThatCode(() -> FlinkGuard.checkUnchanged(Set.of("s3a"), files, flinks)).doesNotThrowAnyException();
  }
}
