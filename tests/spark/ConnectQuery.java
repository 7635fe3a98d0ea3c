import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** A Spark Connect client: runs statements and prints the first value of the last one. Run from its source by `java`. */
class ConnectQuery {
  public static void main(String[] arguments) {
    SparkSession spark = org.apache.spark.sql.connect.SparkSession.builder().remote(arguments[0]).getOrCreate();
    Row row = null;
    for (int index = 1; index < arguments.length; index++) {
      row = spark.sql(arguments[index]).collectAsList().get(0);
    }
    System.out.println("FOUND " + row.get(0));
    System.exit(0);
  }
}
