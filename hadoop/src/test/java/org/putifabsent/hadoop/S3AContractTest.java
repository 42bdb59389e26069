package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.contract.AbstractContractCopyFromLocalTest;
import org.apache.hadoop.fs.contract.AbstractContractCreateTest;
import org.apache.hadoop.fs.contract.AbstractContractDeleteTest;
import org.apache.hadoop.fs.contract.AbstractContractGetFileStatusTest;
import org.apache.hadoop.fs.contract.AbstractContractMkdirTest;
import org.apache.hadoop.fs.contract.AbstractContractOpenTest;
import org.apache.hadoop.fs.contract.AbstractContractRenameTest;
import org.apache.hadoop.fs.contract.AbstractContractRootDirectoryTest;
import org.apache.hadoop.fs.contract.AbstractContractSeekTest;
import org.apache.hadoop.fs.contract.AbstractFSContract;
import org.junit.Test;
import org.junit.runner.JUnitCore;
import org.junit.runner.Result;
import org.junit.runner.RunWith;
import org.junit.runner.notification.Failure;
import org.junit.runners.Parameterized;

/** Hadoop's own suites over S3A: what passes over the bare one passes over the guarded one. */
@RunWith(Parameterized.class)
public class S3AContractTest {

  private static boolean guarded;

  private final Class<?> suite;

  public S3AContractTest(Class<?> suite) {
    this.suite = suite;
  }

  @Parameterized.Parameters(name = "{0}")
  public static List<Class<?>> suites() {
    return List.of(
        Create.class,
        Delete.class,
        GetFileStatus.class,
        Mkdir.class,
        Open.class,
        Rename.class,
        RootDirectory.class,
        Seek.class,
        CopyFromLocal.class);
  }

  @Test
  public void whatPassesOverTheBareOnePassesOverTheGuardedOne() {
    Map<String, String> bare = failures(false);
    Map<String, String> failed = failures(true);
    failed.keySet().removeAll(bare.keySet());
    assertThat(failed).isEmpty();
  }

  private Map<String, String> failures(boolean over) {
    guarded = over;
    Result result = new JUnitCore().run(suite);
    Map<String, String> failures = new TreeMap<>();
    for (Failure failure : result.getFailures()) {
      failures.put(failure.getDescription().getMethodName(), failure.getTrace());
    }
    assertThat(result.getRunCount()).isGreaterThan(2 * failures.size()).isGreaterThan(result.getIgnoreCount());
    return failures;
  }

  public static class Create extends AbstractContractCreateTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new S3AContract(conf, guarded);
    }
  }

  public static class Delete extends AbstractContractDeleteTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new S3AContract(conf, guarded);
    }
  }

  public static class GetFileStatus extends AbstractContractGetFileStatusTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new S3AContract(conf, guarded);
    }
  }

  public static class Mkdir extends AbstractContractMkdirTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new S3AContract(conf, guarded);
    }
  }

  public static class Open extends AbstractContractOpenTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new S3AContract(conf, guarded);
    }
  }

  public static class Rename extends AbstractContractRenameTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new S3AContract(conf, guarded);
    }
  }

  public static class RootDirectory extends AbstractContractRootDirectoryTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new S3AContract(conf, guarded);
    }
  }

  public static class Seek extends AbstractContractSeekTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new S3AContract(conf, guarded);
    }
  }

  public static class CopyFromLocal extends AbstractContractCopyFromLocalTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new S3AContract(conf, guarded);
    }
  }
}
