import org.apache.spark.sql.SparkSession;

/** An application in Java, that knows of nothing: it appends to the folder that it is told. */
public final class Appends {
  private Appends() {}

  public static void main(String[] said) {
    SparkSession spark = SparkSession.builder().getOrCreate();
    spark.range(4).write().mode("append").parquet(said[0]);
    spark.stop();
  }
}
