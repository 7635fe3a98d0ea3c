package dev.colocation.spark;

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
 * Trusts a certificate that the agents' CA signed for the DNS name {@value #SERVER_NAME}.
 *
 * <p>Agents are dialled by pod IP, which no certificate can name ahead of time; so their common name is verified here,
 * whatever the address was.
 */
final class AgentTrust extends X509ExtendedTrustManager {
  static final String SERVER_NAME = "colocation-agent";

  private static final int DNS_NAME = 2;

  private final X509TrustManager chains;

  private AgentTrust(X509TrustManager chains) {
    this.chains = chains;
  }

  /**
   * A TLS context that trusts only agents.
   *
   * @param authority PEM with the agents' CA
   * @throws IOException when there is no certificate in it
   */
  static SSLContext context(byte[] authority) throws IOException {
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
      context.init(null, new TrustManager[] {new AgentTrust(chains)}, null);
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
        && names.stream().anyMatch(name -> name.get(0).equals(DNS_NAME) && SERVER_NAME.equals(name.get(1)));
    if (!named) {
      throw new CertificateException("the certificate is not for the DNS name " + SERVER_NAME + ": " + names);
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
