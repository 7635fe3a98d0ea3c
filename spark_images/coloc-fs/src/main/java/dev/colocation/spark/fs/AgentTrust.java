package dev.colocation.spark.fs;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.Socket;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Collection;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedTrustManager;
import javax.net.ssl.X509TrustManager;

/**
 * Trusts a certificate that the agents' CA signed for one node's agent: for the DNS name {@code <node>.colocation-agent}.
 *
 * <p>Agents are reached by IP addresses, which may later belong to other pods, so the node's name is verified, not the address.
 */
final class AgentTrust extends X509ExtendedTrustManager {
  private static final String DOMAIN = "colocation-agent";
  private static final int DNS_NAME = 2;

  private final X509TrustManager chains;
  private final String serverName;

  private AgentTrust(X509TrustManager chains, String serverName) {
    this.chains = chains;
    this.serverName = serverName;
  }

  /** The DNS name in the certificate of a node's agent, also sent as the server name. */
  static String serverName(String node) {
    return node + "." + DOMAIN;
  }

  /**
   * A TLS context that trusts only the agent of one node.
   *
   * @param authority PEM with the agents' CA
   * @throws IOException when there is no certificate in it
   */
  static SSLContext context(byte[] authority, String node) throws IOException {
    try {
      Collection<? extends Certificate> certificates =
          CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(authority));
      if (certificates.isEmpty()) {
        throw new IOException("the agents' CA file holds no certificate");
      }
      KeyStore anchors = KeyStore.getInstance(KeyStore.getDefaultType());
      anchors.load(null, null);
      for (Certificate certificate : certificates) {
        anchors.setCertificateEntry("authority-" + anchors.size(), certificate);
      }
      TrustManagerFactory factory = TrustManagerFactory.getInstance("PKIX");
      factory.init(anchors);
      X509TrustManager chains = (X509TrustManager) factory.getTrustManagers()[0];
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, new TrustManager[] {new AgentTrust(chains, serverName(node))}, null);
      return context;
    } catch (GeneralSecurityException error) {
      throw new IOException("the agents' CA file cannot be used: " + error.getMessage(), error);
    }
  }

  @Override
  public void checkServerTrusted(X509Certificate[] chain, String type) throws CertificateException {
    chains.checkServerTrusted(chain, type);
    Collection<List<?>> names = chain[0].getSubjectAlternativeNames();
    boolean named = names != null
        && names.stream().anyMatch(name -> name.get(0).equals(DNS_NAME) && serverName.equals(name.get(1)));
    if (!named) {
      throw new CertificateException("the certificate is not for the DNS name " + serverName + ", but for " + names
          + "; another agent answers, or one of the release before: upgrade the chart before Spark's image");
    }
  }

  @Override
  public void checkServerTrusted(X509Certificate[] chain, String type, Socket socket) throws CertificateException {
    checkServerTrusted(chain, type);
  }

  @Override
  public void checkServerTrusted(X509Certificate[] chain, String type, SSLEngine engine) throws CertificateException {
    checkServerTrusted(chain, type);
  }

  @Override
  public void checkClientTrusted(X509Certificate[] chain, String type) throws CertificateException {
    throw new CertificateException("agents are servers only");
  }

  @Override
  public void checkClientTrusted(X509Certificate[] chain, String type, Socket socket) throws CertificateException {
    checkClientTrusted(chain, type);
  }

  @Override
  public void checkClientTrusted(X509Certificate[] chain, String type, SSLEngine engine) throws CertificateException {
    checkClientTrusted(chain, type);
  }

  @Override
  public X509Certificate[] getAcceptedIssuers() {
    return chains.getAcceptedIssuers();
  }
}
