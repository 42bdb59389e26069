package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.net.URI;
import java.util.EnumSet;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.junit.Test;

/** Nobody can close a {@code FileContext}. */
public class ForgottenContextTest {

  private static final String NAME = "test.name";
  private static final Map<String, CountDownLatch> OPEN = new ConcurrentHashMap<>();

  /** Says that it has been closed. */
  public static final class Closed extends RawLocalFileSystem {
    @Override
    public void close() throws IOException {
      super.close();
      OPEN.get(getConf().get(NAME)).countDown();
    }
  }

  private static FileContext context(String name) throws Exception {
    OPEN.put(name, new CountDownLatch(1));
    Configuration conf = ServiceProcess.session(Closed.class);
    conf.set(NAME, name);
    conf.setClass("fs.AbstractFileSystem.file.impl", GuardedFs.class, org.apache.hadoop.fs.AbstractFileSystem.class);
    return FileContext.getFileContext(URI.create("file:///"), conf);
  }

  private static void useAndForget(String name) throws Exception {
    assertThat(context(name).util().exists(new Path("file:/"))).isTrue();
    assertThat(OPEN.get(name).getCount()).isEqualTo(1);
  }

  private static void awaitClosed(String name) throws Exception {
    for (int second = 0; second < 60 && OPEN.get(name).getCount() > 0; second++) {
      System.gc();
      OPEN.get(name).await(1, TimeUnit.SECONDS);
    }
    assertThat(OPEN.get(name).getCount()).isZero();
  }

  @Test
  public void whatItWrapsIsClosedWhenNobodyCanUseItAnyMore() throws Exception {
    useAndForget("forgotten");
    awaitClosed("forgotten");
  }

  @Test
  public void whatItWrapsStaysOpenForWhatIsWrittenAndReadBeyondTheCall() throws Exception {
    Path file = new Path("file:" + System.getProperty("hadoop.tmp.dir") + "/" + UUID.randomUUID());
    try (FSDataOutputStream out = context("written").create(file, EnumSet.of(CreateFlag.CREATE))) {
      out.writeBytes("mine");
      useAndForget("after written");
      awaitClosed("after written");
      assertThat(OPEN.get("written").getCount()).isEqualTo(1);
    }
    try (FSDataInputStream read = context("read").open(file);
        FSDataInputStream built = context("built").openFile(file).build().get()) {
      useAndForget("after read");
      awaitClosed("after read");
      assertThat(OPEN.get("read").getCount() + OPEN.get("built").getCount()).isEqualTo(2);
      assertThat(read.read()).isEqualTo(built.read());
    }
    awaitClosed("written");
  }
}
