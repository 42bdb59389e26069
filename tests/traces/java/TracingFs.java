import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;

/** The same for {@code FileContext}, by which Spark writes its checkpoints. */
public final class TracingFs extends DelegateToFileSystem {

  /** Is called by reflection. */
  public TracingFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
    super(uri, new TracingFileSystem(), conf, uri.getScheme(), false);
  }

  @Override
  public int getUriDefaultPort() {
    return -1;
  }
}
