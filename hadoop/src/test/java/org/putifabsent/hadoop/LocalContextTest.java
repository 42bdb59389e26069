package org.putifabsent.hadoop;

import org.apache.hadoop.fs.FileContext;
import org.junit.experimental.runners.Enclosed;
import org.junit.runner.RunWith;

/** Hadoop's own suites for {@code FileContext}, over its local filesystem. */
@RunWith(Enclosed.class)
public class LocalContextTest {

  public static class MainOperations extends FileContextTest.MainOperations {
    @Override
    FileContext context() throws Exception {
      return LocalNamesTest.guarded();
    }
  }

  public static class CreateMkdir extends FileContextTest.CreateMkdir {
    @Override
    FileContext context() throws Exception {
      return LocalNamesTest.guarded();
    }
  }

  public static class Permission extends FileContextTest.Permission {
    @Override
    FileContext context() throws Exception {
      return LocalNamesTest.guarded();
    }
  }

  public static class Uris extends FileContextTest.Uris {
    @Override
    FileContext context() throws Exception {
      return LocalNamesTest.guarded();
    }
  }

  public static class Util extends FileContextTest.Util {
    @Override
    FileContext context() throws Exception {
      return LocalNamesTest.guarded();
    }
  }
}
