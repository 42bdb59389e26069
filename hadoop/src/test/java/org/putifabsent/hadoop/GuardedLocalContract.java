package org.putifabsent.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.contract.localfs.LocalFSContract;

/** What Hadoop promises of its local filesystem, of the one that it is given for {@code file:} here. */
final class GuardedLocalContract extends LocalFSContract {

  GuardedLocalContract(Configuration conf) {
    super(conf);
    ServiceProcess.tellOfAllFiles(conf);
    conf.setClass("fs.file.impl", GuardedLocalFileSystem.class, FileSystem.class);
    conf.set("fs.file.impl.disable.cache", "true");
  }
}
