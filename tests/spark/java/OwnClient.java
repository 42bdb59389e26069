import org.apache.paimon.fs.FileIO;
import org.apache.paimon.fs.FileIOLoader;
import org.apache.paimon.fs.Path;

/** Stands for a plug-in of Paimon's that brings a client of its own, as paimon-s3 does. */
public final class OwnClient implements FileIOLoader {
  @Override
  public String getScheme() {
    return "s3a";
  }

  @Override
  public FileIO load(Path path) {
    throw new UnsupportedOperationException("it writes nothing here");
  }
}
