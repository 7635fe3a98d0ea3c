package dev.colocation.spark.ui;

import dev.colocation.spark.explain.RecentQueries;
import jakarta.servlet.http.HttpServletRequest;
import java.lang.reflect.Method;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.ui.SparkUI;
import org.apache.spark.ui.SparkUITab;
import org.apache.spark.ui.UIUtils;
import org.apache.spark.ui.WebUIPage;
import scala.Function0;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.xml.Node;
import scala.xml.Unparsed;

/** The tab "Colocation" of Spark's web UI: which of the last queries' joins, group-bys and windows shuffled, and why. */
public final class ColocationTab extends SparkUITab {
  private static final String NAME = "Colocation";

  private final RecentQueries queries;

  private ColocationTab(SparkUI ui, RecentQueries queries) {
    super(ui, "colocation");
    this.queries = queries;
    attachPage(new Page());
  }

  @Override
  public String name() {
    return NAME;
  }

  /** Adds the tab to an application's web UI, if it has one; queries are logged in any case. */
  public static void addTo(SparkContext context) {
    RecentQueries queries = new RecentQueries();
    context.addSparkListener(queries);
    Option<SparkUI> ui = context.ui();
    if (ui.isDefined()) {
      ui.get().attachTab(new ColocationTab(ui.get(), queries));
    }
  }

  private final class Page extends WebUIPage {
    Page() {
      super("");
    }

    @Override
    public Seq<Node> render(HttpServletRequest request) {
      Function0<Seq<Node>> content = () -> CollectionConverters.asScala(List.<Node>of(new Unparsed(
          VerdictTable.html(queries.newestFirst(), UIUtils.prependBaseUri(request, "/SQL/execution/?id=", ""))))).toSeq();
      return page(request, content);
    }

    /** Spark's frame around the content; its parameters after the tab have defaults, and differ between versions. */
    @SuppressWarnings("unchecked")
    private Seq<Node> page(HttpServletRequest request, Function0<Seq<Node>> content) {
      Method frame = Stream.of(UIUtils.class.getMethods()).filter(one -> one.getName().equals("headerSparkPage")).findFirst().orElseThrow();
      Object[] arguments = Stream.of(frame.getParameterTypes()).map(type -> type == boolean.class ? (Object) false : Option.empty())
          .toArray();
      System.arraycopy(new Object[] {request, NAME, content, ColocationTab.this}, 0, arguments, 0, 4);
      try {
        return (Seq<Node>) frame.invoke(null, arguments);
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException("this Spark's web UI is not known", error);
      }
    }
  }

  private static Seq<Node> nodes(String html) {
    return CollectionConverters.asScala(List.<Node>of(new Unparsed(html))).toSeq();
  }
}
