package org.putifabsent.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.TestLocalFSCopyFromLocal;
import org.apache.hadoop.fs.contract.AbstractFSContract;
import org.apache.hadoop.fs.contract.localfs.TestLocalFSContractAppend;
import org.apache.hadoop.fs.contract.localfs.TestLocalFSContractCreate;
import org.apache.hadoop.fs.contract.localfs.TestLocalFSContractDelete;
import org.apache.hadoop.fs.contract.localfs.TestLocalFSContractGetFileStatus;
import org.apache.hadoop.fs.contract.localfs.TestLocalFSContractMkdir;
import org.apache.hadoop.fs.contract.localfs.TestLocalFSContractOpen;
import org.apache.hadoop.fs.contract.localfs.TestLocalFSContractRename;
import org.apache.hadoop.fs.contract.localfs.TestLocalFSContractSeek;
import org.apache.hadoop.fs.contract.localfs.TestLocalFSContractSetTimes;
import org.apache.hadoop.fs.contract.localfs.TestLocalFSContractStreamIOStatistics;
import org.junit.experimental.runners.Enclosed;
import org.junit.runner.RunWith;

/** Hadoop's own suites for its local filesystem. */
@RunWith(Enclosed.class)
public class LocalContractTest {

  public static class Append extends TestLocalFSContractAppend {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new GuardedLocalContract(conf);
    }
  }

  public static class Create extends TestLocalFSContractCreate {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new GuardedLocalContract(conf);
    }
  }

  public static class Delete extends TestLocalFSContractDelete {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new GuardedLocalContract(conf);
    }
  }

  public static class GetFileStatus extends TestLocalFSContractGetFileStatus {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new GuardedLocalContract(conf);
    }
  }

  public static class Mkdir extends TestLocalFSContractMkdir {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new GuardedLocalContract(conf);
    }
  }

  public static class Open extends TestLocalFSContractOpen {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new GuardedLocalContract(conf);
    }
  }

  public static class Rename extends TestLocalFSContractRename {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new GuardedLocalContract(conf);
    }
  }

  public static class Seek extends TestLocalFSContractSeek {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new GuardedLocalContract(conf);
    }
  }

  public static class SetTimes extends TestLocalFSContractSetTimes {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new GuardedLocalContract(conf);
    }
  }

  public static class StreamIOStatistics extends TestLocalFSContractStreamIOStatistics {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new GuardedLocalContract(conf);
    }
  }

  public static class CopyFromLocal extends TestLocalFSCopyFromLocal {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new GuardedLocalContract(conf);
    }
  }
}
