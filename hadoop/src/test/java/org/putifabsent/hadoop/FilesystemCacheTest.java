package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.net.URI;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** A filesystem that this JVM has opened without the guard is noticed, for Hadoop hands it to all. */
public class FilesystemCacheTest {

  private static final URI ROOT = URI.create("file:///");

  @Before
  @After
  public void forgetAll() throws IOException {
    FileSystem.closeAll();
  }

  private static Configuration guarding() {
    Configuration conf = ServiceProcess.session(LocalFileSystem.class);
    conf.setClass("fs.file.impl", GuardedLocalFileSystem.class, FileSystem.class);
    return conf;
  }

  @Test
  public void whatWasOpenedWithTheGuardPasses() throws IOException {
    FileSystem.get(ROOT, guarding());
    assertThatCode(() -> FilesystemCache.check(Set.of("file"))).doesNotThrowAnyException();
  }

  @Test
  public void whatWasOpenedWithoutTheGuardIsRefusedWhoeverAsksNext() throws IOException {
    FileSystem.get(ROOT, new Configuration());
    FileSystem.get(ROOT, guarding());
    assertThatThrownBy(() -> FilesystemCache.check(Set.of("s3a", "file")))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("file:// was opened here without it, by " + LocalFileSystem.class.getName())
        .hasMessageContaining("restart this session's JVM");
  }

  @Test
  public void whatNothingGuardsAndWhatNobodyElseGetsPass() throws IOException {
    FileSystem.get(ROOT, guarding());
    try (FileSystem own = FileSystem.newInstance(ROOT, new Configuration())) {
      assertThat(own).isInstanceOf(LocalFileSystem.class);
      assertThatCode(() -> FilesystemCache.check(Set.of("file"))).doesNotThrowAnyException();
    }
    FileSystem.closeAll();
    FileSystem.get(ROOT, new Configuration());
    assertThatCode(() -> FilesystemCache.check(Set.of("s3a"))).doesNotThrowAnyException();
  }
}
