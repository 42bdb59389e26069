package org.putifabsent.hadoop;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.contract.rawlocal.RawlocalFSContract;

/** What Hadoop promises of its raw local filesystem, of a guarded one. */
final class GuardedRawContract extends RawlocalFSContract {

  GuardedRawContract(Configuration conf) {
    super(conf);
  }

  @Override
  protected FileSystem getLocalFS() throws IOException {
    FileSystem guarded = new GuardedFileSystem();
    guarded.initialize(URI.create("file:///"), ServiceProcess.session(RawLocalFileSystem.class));
    return guarded;
  }
}
