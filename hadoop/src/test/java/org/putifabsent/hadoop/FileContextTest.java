package org.putifabsent.hadoop;

import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileContextCreateMkdirBaseTest;
import org.apache.hadoop.fs.FileContextMainOperationsBaseTest;
import org.apache.hadoop.fs.FileContextPermissionBase;
import org.apache.hadoop.fs.FileContextURIBase;
import org.apache.hadoop.fs.FileContextUtilBase;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.junit.Before;
import org.junit.experimental.runners.Enclosed;
import org.junit.runner.RunWith;

/** Hadoop's own suites for {@code FileContext}, over the raw local filesystem. */
@RunWith(Enclosed.class)
public class FileContextTest {

  static FileContext guarded() throws Exception {
    Configuration conf = ServiceProcess.session(RawLocalFileSystem.class);
    conf.setClass("fs.AbstractFileSystem.file.impl", GuardedFs.class, org.apache.hadoop.fs.AbstractFileSystem.class);
    return FileContext.getFileContext(URI.create("file:///"), conf);
  }

  public static class MainOperations extends FileContextMainOperationsBaseTest {
    FileContext context() throws Exception {
      return guarded();
    }

    @Override
    @Before
    public void setUp() throws Exception {
      fc = context();
      super.setUp();
    }

    @Override
    protected Path getDefaultWorkingDirectory() {
      return new Path("file:" + System.getProperty("user.dir"));
    }

    @Override
    protected boolean listCorruptedBlocksSupported() {
      return false;
    }
  }

  public static class CreateMkdir extends FileContextCreateMkdirBaseTest {
    FileContext context() throws Exception {
      return guarded();
    }

    @Override
    @Before
    public void setUp() throws Exception {
      fc = context();
      super.setUp();
    }
  }

  public static class Permission extends FileContextPermissionBase {
    FileContext context() throws Exception {
      return guarded();
    }

    @Override
    protected FileContext getFileContext() throws java.io.IOException {
      try {
        return context();
      } catch (java.io.IOException error) {
        throw error;
      } catch (Exception error) {
        throw new java.io.IOException(error);
      }
    }
  }

  public static class Uris extends FileContextURIBase {
    FileContext context() throws Exception {
      return guarded();
    }

    @Override
    @Before
    public void setUp() throws Exception {
      fc1 = context();
      fc2 = context();
      super.setUp();
    }
  }

  public static class Util extends FileContextUtilBase {
    FileContext context() throws Exception {
      return guarded();
    }

    @Override
    @Before
    public void setUp() throws Exception {
      fc = context();
      super.setUp();
    }
  }
}
