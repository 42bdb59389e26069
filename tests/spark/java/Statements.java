import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** An application in Java that knows of no format: it runs a script's statements, and prints what they return. */
public final class Statements {
  private Statements() {}

  public static void main(String[] said) throws Exception {
    SparkSession spark = SparkSession.builder().getOrCreate();
    for (String statement : Files.readString(Path.of(said[0])).split(";\n")) {
      if (!statement.isBlank()) {
        for (Row row : spark.sql(statement).collectAsList()) {
          System.out.println(row.get(0));
        }
      }
    }
    spark.stop();
  }
}
