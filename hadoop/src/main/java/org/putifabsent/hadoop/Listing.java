package org.putifabsent.hadoop;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.PriorityQueue;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.util.functional.RemoteIterators;

/**
 * A filesystem to copy from: it lists numbered files in ascending order, and not what is kept beside a table.
 *
 * <p>What copies a folder creates its files as they are listed. Stores list by name, {@code snapshot-10} before
 * {@code snapshot-9}; and a number that comes below others, whose successor is not there, looks expired. Nobody is
 * asked what a name is: Hadoop promises no order. And a copy of a table is another table, with a state of its own.
 */
final class Listing extends FilterFileSystem {

  private static final String STATE = ".putifabsent";

  /** Letters, a number, and what is behind it: {@code v9.metadata.json}, {@code 9}, {@code T_C.commit}. */
  private static final Pattern NUMBERED = Pattern.compile("([^0-9]*)0*([0-9]+)([._].*)?");

  private Listing(FileSystem fs) {
    super(fs);
  }

  /** Returns one over a filesystem that may list otherwise. */
  static FileSystem of(FileSystem fs) {
    return fs instanceof GuardedLocalFileSystem ? fs : new Listing(fs);
  }

  @Override
  public FileStatus[] listStatus(Path path) throws FileNotFoundException, IOException {
    return shown(super.listStatus(path));
  }

  @Override
  public RemoteIterator<FileStatus> listStatusIterator(Path path) throws IOException {
    return shown(super.listStatusIterator(path));
  }

  /** A file that has a number, and where it is listed. */
  private static final class Numbered {
    final FileStatus file;
    final int place;
    final String series;
    final String number;
    final int step;

    private Numbered(FileStatus file, int place, Matcher name) {
      this.file = file;
      this.place = place;
      this.series = file.getPath().getParent() + "/" + name.group(1);
      this.number = name.group(2);
      this.step = step(name.group(3));
    }

    /** Takes a file as one, or empty: it has no number. */
    static Optional<Numbered> of(FileStatus file, int place) {
      Matcher name = NUMBERED.matcher(file.getPath().getName());
      return file.isFile() && name.matches() ? Optional.of(new Numbered(file, place, name)) : Optional.empty();
    }

    /** The steps of an instant of Hudi's are created in this order. */
    private static int step(String rest) {
      if (rest == null || !rest.endsWith(".requested") && !rest.endsWith(".inflight")) {
        return 2;
      }
      return rest.endsWith(".requested") ? 0 : 1;
    }
  }

  private static final Comparator<Numbered> BY_NUMBER =
      Comparator.<Numbered>comparingInt(each -> each.number.length())
          .thenComparing(each -> each.number)
          .thenComparingInt(each -> each.step);

  private static boolean isShown(FileStatus file) {
    return !file.getPath().getName().equals(STATE);
  }

  /** Shows what a pattern has found, or null: what is kept beside a table only to who names it. */
  static FileStatus[] found(Path pattern, FileStatus[] all) {
    return all == null || pattern.toString().contains(STATE) ? all : shown(all);
  }

  /** Shows what lies in a folder, or below it, as {@link #found} does. */
  static RemoteIterator<LocatedFileStatus> below(Path folder, RemoteIterator<LocatedFileStatus> all) {
    return folder.toString().contains(STATE) ? all : RemoteIterators.filteringRemoteIterator(all, Listing::isOutside);
  }

  private static boolean isOutside(FileStatus file) {
    return !(file.getPath().toUri().getPath() + "/").contains("/" + STATE + "/");
  }

  /** Puts the numbered files of a listing into ascending order, each folder's series into the places that it has. */
  static FileStatus[] shown(FileStatus[] all) {
    FileStatus[] listed = Arrays.stream(all).filter(Listing::isShown).toArray(FileStatus[]::new);
    Map<String, List<Numbered>> series = new HashMap<>();
    for (int place = 0; place < listed.length; place++) {
      Numbered.of(listed[place], place)
          .ifPresent(file -> series.computeIfAbsent(file.series, same -> new ArrayList<>()).add(file));
    }
    FileStatus[] ordered = listed.clone();
    for (List<Numbered> files : series.values()) {
      List<Numbered> ascending = new ArrayList<>(files);
      ascending.sort(BY_NUMBER);
      for (int index = 0; index < files.size(); index++) {
        ordered[files.get(index).place] = ascending.get(index).file;
      }
    }
    return ordered;
  }

  /** Has the numbered files of a listing come last, and in ascending order; the others come as they are listed. */
  static RemoteIterator<FileStatus> shown(RemoteIterator<FileStatus> listed) {
    return new RemoteIterator<>() {

      private final PriorityQueue<Numbered> kept =
          new PriorityQueue<>(BY_NUMBER.thenComparingInt(each -> each.place));
      private FileStatus next;

      @Override
      public boolean hasNext() throws IOException {
        while (next == null && listed.hasNext()) {
          FileStatus found = listed.next();
          Optional<Numbered> file = Numbered.of(found, kept.size());
          file.ifPresent(kept::add);
          next = file.isPresent() || !isShown(found) ? null : found;
        }
        return next != null || !kept.isEmpty();
      }

      @Override
      public FileStatus next() throws IOException {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        FileStatus found = next == null ? kept.remove().file : next;
        next = null;
        return found;
      }
    };
  }
}
