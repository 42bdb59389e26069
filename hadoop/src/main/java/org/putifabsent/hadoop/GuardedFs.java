package org.putifabsent.hadoop;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.Path;

/** {@link GuardedFileSystem} for {@code FileContext}: {@code fs.AbstractFileSystem.<scheme>.impl}. */
public final class GuardedFs extends DelegateToFileSystem {

  private final GuardedFileSystem guarded;

  /** Is called by reflection. */
  public GuardedFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
    this(uri, new GuardedFileSystem(), conf);
  }

  private GuardedFs(URI uri, GuardedFileSystem guarded, Configuration conf) throws IOException, URISyntaxException {
    super(uri, guarded, conf, uri.getScheme(), false);
    this.guarded = guarded;
  }

  /** Asks before its parent does, which would remove the target first: a guarded one is somebody's. */
  @Override
  public void renameInternal(Path source, Path target, boolean overwrite) throws IOException {
    checkPath(source);
    checkPath(target);
    if (!guarded.movedOrRefused(source, target)) {
      super.renameInternal(source, target, overwrite);
    }
  }
}
