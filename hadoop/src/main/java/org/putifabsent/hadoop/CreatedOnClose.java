package org.putifabsent.hadoop;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.fs.Abortable;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.StreamCapabilities;

/**
 * Creates a guarded name from what was written when it is closed. Aborted, or never closed, it creates nothing.
 *
 * <p>A writer that fails between two of its writes closes it as well, and nothing here shows that. Half of what its
 * format writes is then refused by the service, which looks at the bytes.
 */
final class CreatedOnClose extends OutputStream implements Abortable, StreamCapabilities {

  /** Brings the name into being. */
  interface Creation {
    void from(byte[] bytes, int length) throws IOException;
  }

  private final Name name;
  private final long largest;
  private final Creation creation;
  private Buffer buffer = new Buffer();

  CreatedOnClose(Name name, long largest, Creation creation) {
    this.name = name;
    this.largest = largest;
    this.creation = creation;
  }

  @Override
  public synchronized void write(int value) throws IOException {
    write(new byte[] {(byte) value}, 0, 1);
  }

  /** Half of it is never created: after a write that failed there is nothing to close. */
  @Override
  public synchronized void write(byte[] bytes, int offset, int length) throws IOException {
    Buffer written = buffer;
    if (written == null) {
      throw new IOException(name + " is closed");
    }
    buffer = null;
    if (written.size() + (long) length > largest) {
      throw new IOException(
          name + " is guarded, and larger than the " + largest + " bytes of the coordination service's largest_body");
    }
    written.write(bytes, offset, length);
    buffer = written;
  }

  @Override
  public void close() throws IOException {
    Buffer written;
    synchronized (this) {
      written = buffer;
      buffer = null;
    }
    if (written != null) {
      creation.from(written.bytes(), written.size());
    }
  }

  @Override
  public synchronized AbortableResult abort() {
    boolean before = buffer == null;
    buffer = null;
    return new AbortableResult() {
      @Override
      public boolean alreadyClosed() {
        return before;
      }

      @Override
      public IOException anyCleanupException() {
        return null;
      }
    };
  }

  @Override
  public boolean hasCapability(String capability) {
    return CommonPathCapabilities.ABORTABLE_STREAM.equalsIgnoreCase(capability);
  }

  /** Hands out its array, instead of a copy. */
  private static final class Buffer extends ByteArrayOutputStream {
    byte[] bytes() {
      return buf;
    }
  }
}
