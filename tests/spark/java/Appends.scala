import org.apache.spark.sql.SparkSession

/** The same in Scala. */
object Appends extends App {
  val spark = SparkSession.builder().getOrCreate()
  spark.range(4).write.mode("append").parquet(args(0))
  spark.stop()
}
