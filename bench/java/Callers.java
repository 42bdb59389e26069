import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Threads that create guarded names, each its own: {@code Callers FOLDER THREADS CALLS PAUSE_MILLIS}.
 *
 * <p>Its settings are lines of standard input, {@code key=value}, up to an empty one; at the next line it begins.
 * It prints a line a call: when it began, by the machine's clock in milliseconds; how many microseconds it took;
 * what came of it.
 */
public final class Callers {

  private Callers() {}

  public static void main(String[] said) throws Exception {
    Path folder = new Path(said[0]);
    int calls = Integer.parseInt(said[2]);
    long pause = Long.parseLong(said[3]);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    Configuration conf = new Configuration();
    for (String line = input.readLine(); !line.isEmpty(); line = input.readLine()) {
      conf.set(line.substring(0, line.indexOf('=')), line.substring(line.indexOf('=') + 1));
    }
    FileSystem fs = folder.getFileSystem(conf);
    fs.mkdirs(folder);
    System.out.println("ready");
    input.readLine();
    Queue<String> told = new ConcurrentLinkedQueue<>();
    List<Thread> threads = new ArrayList<>();
    for (int number = 0; number < Integer.parseInt(said[1]); number++) {
      threads.add(new Thread(() -> create(fs, folder, calls, pause, told)));
    }
    threads.forEach(Thread::start);
    for (Thread thread : threads) {
      thread.join();
    }
    told.forEach(System.out::println);
  }

  private static void create(FileSystem fs, Path folder, int calls, long pause, Queue<String> told) {
    for (int number = 0; number < calls; number++) {
      String outcome = "created";
      long began = System.currentTimeMillis();
      long start = System.nanoTime();
      try (FSDataOutputStream out = fs.create(new Path(folder, UUID.randomUUID() + ".manifest"), false)) {
        out.write(new byte[1024]);
      } catch (Exception error) {
        outcome = error.toString().replace('\n', ' ');
      }
      told.add(began + " " + (System.nanoTime() - start) / 1000 + " " + outcome);
      try {
        Thread.sleep(pause == 0 ? 0 : ThreadLocalRandom.current().nextLong(2 * pause));
      } catch (InterruptedException interrupted) {
        return;
      }
    }
  }
}
