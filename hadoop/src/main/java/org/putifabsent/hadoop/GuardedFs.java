package org.putifabsent.hadoop;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.IOUtils;

/**
 * {@link GuardedFileSystem} for {@code FileContext}: {@code fs.AbstractFileSystem.<scheme>.impl}.
 *
 * <p>Nobody can close a {@code FileContext}. So what is wrapped is closed when nobody can use this any more, as S3A's
 * own does from Hadoop 3.3.5 on: a stream needs whoever opened it for as long as it is used.
 */
public final class GuardedFs extends DelegateToFileSystem {

  private static final Cleaner CLEANER = Cleaner.create();

  private final GuardedFileSystem guarded;

  /** Is called by reflection. */
  public GuardedFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
    this(uri, new GuardedFileSystem(), conf);
  }

  private GuardedFs(URI uri, GuardedFileSystem guarded, Configuration conf) throws IOException, URISyntaxException {
    super(uri, guarded, conf, uri.getScheme(), false);
    this.guarded = guarded;
    CLEANER.register(this, () -> IOUtils.closeStream(guarded));
  }

  /** Asks before its parent does, which would remove the target first: a guarded one is somebody's. */
  @Override
  public void renameInternal(Path source, Path target, boolean overwrite) throws IOException {
    checkPath(source);
    checkPath(target);
    if (!guarded.guard().movedOrRefused(source, target)) {
      super.renameInternal(source, target, overwrite);
    }
  }
}
