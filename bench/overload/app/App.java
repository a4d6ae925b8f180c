import com.sun.net.httpserver.HttpServer;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.math.BigDecimal;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.catalina.Context;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import org.apache.coyote.AbstractProtocol;

/**
 * A shop as many are: Tomcat with a thread for each request, a connection to PostgreSQL for each
 * thread, and objects for every row. A request reads a customer's history, orders an article, and
 * renders a page from both. It is not throttled and not slowed down: what it suffers from is what
 * such applications suffer from. Threads that hold their objects while they wait for the database
 * fill the heap, and the collector takes the processors that they wait for; transactions wait for
 * the rows of the few articles that sell.
 *
 * Arguments: port, control port, JDBC URL, threads, base directory. POST /cut on the control port
 * tells what has happened since the last cut.
 */
public final class App {
  static final int CUSTOMERS = 1000;
  static final int LINES = 400; // of a customer's history
  static final int ARTICLES = 20; // that sell

  public static void main(String[] args) throws Exception {
    int port = Integer.parseInt(args[0]);
    int control = Integer.parseInt(args[1]);
    int threads = Integer.parseInt(args[3]);
    Pool pool = new Pool(args[2], threads);
    fill(pool);
    Figures figures = new Figures();

    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir(args[4]);
    Connector connector = new Connector();
    connector.setPort(port);
    connector.setProperty("address", "127.0.0.1");
    connector.setProperty("maxThreads", Integer.toString(threads));
    connector.setProperty("maxKeepAliveRequests", "-1");
    tomcat.setConnector(connector);
    Context context = tomcat.addContext("", null);
    AbstractProtocol<?> protocol = (AbstractProtocol<?>) connector.getProtocolHandler();
    Tomcat.addServlet(context, "shop", new Shop(pool, figures, protocol));
    context.addServletMappingDecoded("/*", "shop");
    tomcat.start();
    serveControl(control, figures);
    tomcat.getServer().await();
  }

  /** fill makes the tables. */
  static void fill(Pool pool) throws Exception {
    Connection c = pool.take();
    try (var s = c.createStatement()) {
      s.execute("CREATE TABLE line (customer int, number int, article int, name text, price numeric, remark text)");
      s.execute(
          "INSERT INTO line SELECT c, n, n % 1000, 'Article number ' || n, n * 0.37, repeat('as it was ordered ', 4)"
              + " FROM generate_series(1, " + CUSTOMERS + ") c, generate_series(1, " + LINES + ") n");
      s.execute("CREATE INDEX ON line (customer)");
      s.execute("CREATE TABLE stock (article int PRIMARY KEY, pieces bigint)");
      s.execute("INSERT INTO stock SELECT n, 1000000000 FROM generate_series(1, " + ARTICLES + ") n");
      s.execute("CREATE TABLE ordered (id bigserial PRIMARY KEY, customer int, article int, total numeric)");
      c.commit();
      c.setAutoCommit(true);
      s.execute("VACUUM ANALYZE");
      c.setAutoCommit(false);
    }
    pool.give(c);
  }

  static void serveControl(int port, Figures figures) throws IOException {
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
    server.createContext(
        "/cut",
        exchange -> {
          byte[] text = figures.cut().getBytes(StandardCharsets.UTF_8);
          exchange.sendResponseHeaders(200, text.length);
          exchange.getResponseBody().write(text);
          exchange.close();
        });
    server.start();
  }

  /** Pool has a connection for each thread. */
  static final class Pool {
    private final ArrayBlockingQueue<Connection> idle;

    Pool(String url, int size) throws SQLException {
      idle = new ArrayBlockingQueue<>(size);
      for (int i = 0; i < size; i++) {
        Connection c = DriverManager.getConnection(url);
        c.setAutoCommit(false);
        idle.add(c);
      }
    }

    Connection take() throws InterruptedException {
      return idle.take();
    }

    void give(Connection c) {
      idle.add(c);
    }
  }

  /** Line is one line of a history. */
  record Line(int number, int article, String name, BigDecimal price, String remark, String label) {}

  /** Shop answers every request with a page. */
  static final class Shop extends HttpServlet {
    private final transient Pool pool;
    private final transient Figures figures;
    private final transient AbstractProtocol<?> protocol;

    Shop(Pool pool, Figures figures, AbstractProtocol<?> protocol) {
      this.pool = pool;
      this.figures = figures;
      this.protocol = protocol;
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
      figures.enter(protocol.getConnectionCount());
      boolean good = false;
      try {
        byte[] page = page(ThreadLocalRandom.current().nextInt(CUSTOMERS) + 1).getBytes(StandardCharsets.UTF_8);
        response.setContentType("text/html");
        response.setContentLength(page.length);
        response.getOutputStream().write(page);
        good = true;
      } catch (SQLException | InterruptedException e) {
        response.sendError(500, e.toString());
      } finally {
        figures.leave(good);
      }
    }

    /** page reads the history, orders, and renders both. */
    private String page(int customer) throws SQLException, InterruptedException {
      Connection c = pool.take();
      try {
        List<Line> history = history(c, customer);
        BigDecimal total = BigDecimal.ZERO;
        for (Line line : history) {
          total = total.add(line.price());
        }
        long id = order(c, customer, total);
        c.commit();
        return render(id, history, total);
      } catch (SQLException e) {
        c.rollback();
        throw e;
      } finally {
        pool.give(c);
      }
    }

    private static List<Line> history(Connection c, int customer) throws SQLException {
      List<Line> lines = new ArrayList<>();
      try (PreparedStatement s = c.prepareStatement("SELECT number, article, name, price, remark FROM line WHERE customer = ?")) {
        s.setInt(1, customer);
        try (ResultSet r = s.executeQuery()) {
          while (r.next()) {
            String name = r.getString(3);
            lines.add(new Line(r.getInt(1), r.getInt(2), name, r.getBigDecimal(4), r.getString(5), name.toUpperCase() + " / " + customer));
          }
        }
      }
      return lines;
    }

    private static long order(Connection c, int customer, BigDecimal total) throws SQLException {
      int article = ThreadLocalRandom.current().nextInt(ARTICLES) + 1;
      try (PreparedStatement s = c.prepareStatement("UPDATE stock SET pieces = pieces - 1 WHERE article = ?")) {
        s.setInt(1, article);
        s.executeUpdate();
      }
      try (PreparedStatement s =
          c.prepareStatement("INSERT INTO ordered (customer, article, total) VALUES (?, ?, ?) RETURNING id")) {
        s.setInt(1, customer);
        s.setInt(2, article);
        s.setBigDecimal(3, total);
        try (ResultSet r = s.executeQuery()) {
          r.next();
          return r.getLong(1);
        }
      }
    }

    private static String render(long id, List<Line> history, BigDecimal total) {
      StringBuilder page = new StringBuilder();
      for (Line line : history) {
        page.append("<tr><td>").append(line.number()).append("<td>").append(line.label());
        page.append("<td>").append(line.price()).append("<td>").append(line.remark()).append("</tr>\n");
      }
      String rows = page.toString();
      return "<h1>Order " + id + "</h1><p>" + rows.length() + " bytes of history, " + total + "</p>\n";
    }
  }

  /** Figures are what has happened since the last cut. */
  static final class Figures {
    private long since = System.nanoTime();
    private long at = since;
    private long good;
    private long bad;
    private int held;
    private int mostHeld;
    private double area;
    private long connections;
    private long mostConnections;

    synchronized void enter(long open) {
      pass();
      held++;
      mostHeld = Math.max(mostHeld, held);
      connections = open;
      mostConnections = Math.max(mostConnections, open);
    }

    synchronized void leave(boolean wasGood) {
      pass();
      held--;
      if (wasGood) {
        good++;
      } else {
        bad++;
      }
    }

    private void pass() {
      long now = System.nanoTime();
      area += held * ((now - at) / 1e9);
      at = now;
    }

    synchronized String cut() {
      pass();
      double seconds = (at - since) / 1e9;
      String text =
          "{\"seconds\": " + seconds + ", \"good\": " + good + ", \"lies\": " + bad + ", \"held\": " + held
              + ", \"most_held\": " + mostHeld + ", \"mean_held\": " + area / seconds
              + ", \"connections\": " + connections + ", \"most_connections\": " + mostConnections + "}";
      since = at;
      good = 0;
      bad = 0;
      mostHeld = held;
      area = 0;
      mostConnections = connections;
      return text;
    }
  }
}
