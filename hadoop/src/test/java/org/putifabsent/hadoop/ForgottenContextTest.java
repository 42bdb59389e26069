package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.net.URI;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.junit.Test;

/** Nobody can close a {@code FileContext}. */
public class ForgottenContextTest {

  private static final CountDownLatch CLOSED = new CountDownLatch(1);

  /** Says that it has been closed. */
  public static final class Closed extends RawLocalFileSystem {
    @Override
    public void close() throws IOException {
      super.close();
      CLOSED.countDown();
    }
  }

  private static void useAndForget() throws Exception {
    Configuration conf = ServiceProcess.session(Closed.class);
    conf.setClass("fs.AbstractFileSystem.file.impl", GuardedFs.class, org.apache.hadoop.fs.AbstractFileSystem.class);
    FileContext context = FileContext.getFileContext(URI.create("file:///"), conf);
    assertThat(context.util().exists(new Path("file:/"))).isTrue();
    assertThat(CLOSED.getCount()).isEqualTo(1);
  }

  @Test
  public void whatItWrapsIsClosedWhenNobodyCanUseItAnyMore() throws Exception {
    useAndForget();
    for (int second = 0; second < 60 && CLOSED.getCount() > 0; second++) {
      System.gc();
      CLOSED.await(1, TimeUnit.SECONDS);
    }
    assertThat(CLOSED.getCount()).isZero();
  }
}
