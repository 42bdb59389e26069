package org.putifabsent.hadoop;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;

/** A fake: the network between a JVM and a service, which forgets connections and says so to nobody. */
final class ForgetfulNetwork implements Closeable {

  final String address;
  private final URI real;
  private final ServerSocket server = new ServerSocket(0, 0, InetAddress.getLoopbackAddress());
  private final List<Socket> sockets = new CopyOnWriteArrayList<>();
  private volatile AtomicBoolean forgotten = new AtomicBoolean();

  ForgetfulNetwork(String real) throws IOException {
    this.real = URI.create(real);
    address = "http://127.0.0.1:" + server.getLocalPort();
    inBackground(this::accept);
  }

  /** Forgets all connections that there are. New ones work. */
  void forget() {
    forgotten.set(true);
    forgotten = new AtomicBoolean();
  }

  private interface Work {
    void done() throws IOException;
  }

  private static void inBackground(Work work) {
    Thread thread =
        new Thread(
            () -> {
              try {
                work.done();
              } catch (IOException over) {
                // One of both ends is closed.
              }
            });
    thread.setDaemon(true);
    thread.start();
  }

  private void accept() throws IOException {
    while (true) {
      Socket near = server.accept();
      Socket far = new Socket(real.getHost(), real.getPort());
      sockets.addAll(List.of(near, far));
      AtomicBoolean isForgotten = forgotten;
      inBackground(() -> pass(near.getInputStream(), far.getOutputStream(), isForgotten));
      inBackground(() -> pass(far.getInputStream(), near.getOutputStream(), isForgotten));
    }
  }

  private static void pass(InputStream from, OutputStream to, AtomicBoolean isForgotten) throws IOException {
    byte[] some = new byte[1 << 16];
    for (int length = from.read(some); length >= 0; length = from.read(some)) {
      if (!isForgotten.get()) {
        to.write(some, 0, length);
      }
    }
  }

  @Override
  public void close() throws IOException {
    server.close();
    for (Socket socket : sockets) {
      socket.close();
    }
  }
}
