package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import java.lang.reflect.InvocationTargetException;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/** Finds the names of a query that belong to a ColocationCatalog, before Spark resolves the tables. */
final class ColocationNames {
  private static final String CATALOG = "spark.sql.catalog.";
  private static final String SESSION_CATALOG = "spark_catalog";

  private ColocationNames() {}

  /** Whether the name's catalog is ours: its first part, else the catalog of the view that contains the name, or of USE. */
  static boolean isOurs(UnresolvedRelation relation) {
    return !SparkSession.active().sessionState().catalog().isTempView(relation.multipartIdentifier())
        && !catalogIfOurs(CollectionConverters.asJava(relation.multipartIdentifier())).isEmpty();
  }

  /** The name's catalog if it is a ColocationCatalog, else empty. */
  static String catalogIfOurs(List<String> name) {
    SparkSession session = SparkSession.active();
    String catalog = namesCatalog(session, name) ? name.get(0) : current(session);
    return isOurs(session.sessionState().conf(), catalog) ? catalog : "";
  }

  /**
   * A table's name.
   *
   * @param parts without the catalog's name; the namespace is left out where it is the current one
   */
  record InCatalog(ClusterCatalog catalog, List<String> parts) {
    @Override
    public String toString() {
      return catalog.name() + "." + String.join(".", parts);
    }
  }

  /** A name that {@link #isOurs}. */
  static InCatalog inCatalog(UnresolvedRelation relation) {
    SparkSession session = SparkSession.active();
    List<String> name = CollectionConverters.asJava(relation.multipartIdentifier());
    boolean namesCatalog = namesCatalog(session, name);
    return new InCatalog(
        catalog(session, namesCatalog ? name.get(0) : current(session)), namesCatalog ? name.subList(1, name.size()) : name);
  }

  /** By reflection: the manager of catalogs is a class of Spark 4.1, and an interface of Spark 4.2. */
  private static ClusterCatalog catalog(SparkSession session, String name) {
    try {
      return (ClusterCatalog) CatalogManager.class.getMethod("catalog", String.class)
          .invoke(session.sessionState().catalogManager(), name);
    } catch (NoSuchMethodException | IllegalAccessException error) {
      throw new ColocationException("this Spark has another CatalogManager than those known: " + error, error).unchecked();
    } catch (InvocationTargetException error) {
      throw ColocationException.unchecked(error.getCause());
    }
  }

  private static boolean namesCatalog(SparkSession session, List<String> name) {
    String first = name.get(0);
    return name.size() > 1 && (first.equalsIgnoreCase(SESSION_CATALOG) || session.sessionState().conf().contains(CATALOG + first));
  }

  private static String current(SparkSession session) {
    List<String> ofView = CollectionConverters.asJava(AnalysisContext.get().catalogAndNamespace());
    return ofView.isEmpty() ? session.catalog().currentCatalog() : ofView.get(0);
  }

  private static boolean isOurs(SQLConf conf, String catalog) {
    return ClusterCatalog.CONFIGURED_CLASS.equals(conf.getConfString(CATALOG + catalog, ""));
  }
}
