package dev.colocation.spark.catalog;

import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Finds the names of a query that belong to a ColocationCatalog, before Spark resolves the tables. */
final class OwnNames {
  private static final String CATALOG = "spark.sql.catalog.";
  private static final String SESSION_CATALOG = "spark_catalog";
  /** Property of these views. */
  private static final String MARK = "colocation.dev/table";

  private OwnNames() {}

  /** Whether the name's catalog is ours: its first part, else the catalog of the view that contains the name, or of USE. */
  static boolean isOurs(UnresolvedRelation relation) {
    SparkSession session = SparkSession.active();
    if (session.sessionState().catalog().isTempView(relation.multipartIdentifier())) {
      return false;
    }
    List<String> name = CollectionConverters.asJava(relation.multipartIdentifier());
    SQLConf conf = session.sessionState().conf();
    String first = name.get(0);
    boolean namesCatalog = name.size() > 1 && (first.equalsIgnoreCase(SESSION_CATALOG) || conf.contains(CATALOG + first));
    return isOurs(conf, namesCatalog ? first : current(session));
  }

  /**
   * The table {@code <namespace>/<table>} that a view which {@code colocation.spark.register} made is of; empty for all other names.
   */
  static Optional<String> tableOfView(UnresolvedRelation relation) {
    SparkSession session = SparkSession.active();
    List<String> name = CollectionConverters.asJava(relation.multipartIdentifier());
    boolean namesCatalog = name.size() > 2;
    if (!(namesCatalog ? name.get(0) : current(session)).equalsIgnoreCase(SESSION_CATALOG) || name.size() > 3) {
      return Optional.empty();
    }
    Option<String> database = name.size() == 1 ? Option.empty() : Option.apply(name.get(name.size() - 2));
    try {
      CatalogTable view = session.sessionState().catalog()
          .getTableMetadata(new TableIdentifier(name.get(name.size() - 1), database));
      return Optional.ofNullable(CollectionConverters.asJava(view.properties()).get(MARK));
    } catch (NoSuchTableException | NoSuchNamespaceException absent) {
      return Optional.empty();
    }
  }

  private static String current(SparkSession session) {
    List<String> ofView = CollectionConverters.asJava(AnalysisContext.get().catalogAndNamespace());
    return ofView.isEmpty() ? session.catalog().currentCatalog() : ofView.get(0);
  }

  private static boolean isOurs(SQLConf conf, String catalog) {
    return ClusterCatalog.CONFIGURED_CLASS.equals(conf.getConfString(CATALOG + catalog, ""));
  }
}
