package dev.colocation.spark;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;

/** What a class logs while a test runs some code. */
public final class Logged extends AbstractAppender {
  private final List<String> lines = new CopyOnWriteArrayList<>();

  private Logged() {
    super("test", null, null, false, Property.EMPTY_ARRAY);
  }

  /** Code under test. */
  public interface Code {
    void run() throws Exception;
  }

  /** The lines that this class's logger gets from the code, each with its level in front. */
  public static List<String> by(Class<?> type, Code code) {
    Logger logger = (Logger) LogManager.getLogger(type);
    Level before = logger.getLevel();
    Logged logged = new Logged();
    logged.start();
    logger.addAppender(logged);
    logger.setLevel(Level.INFO);
    try {
      code.run();
    } catch (Exception error) {
      throw new AssertionError(error);
    } finally {
      logger.setLevel(before);
      logger.removeAppender(logged);
    }
    return List.copyOf(logged.lines);
  }

  @Override
  public void append(LogEvent event) {
    lines.add(event.getLevel() + " " + event.getMessage().getFormattedMessage());
  }
}
