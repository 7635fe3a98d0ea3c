package dev.colocation.spark.fs;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.Arrays;
import java.util.Base64;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;

/** A self-signed certificate for some DNS names, made by the JDK's own keytool. */
public record TestTls(SSLContext server, Path authority) {
  private static final String PASSWORD = "changeit";

  /** Of the agents of these nodes. */
  public static TestTls forNodes(Path folder, String... nodes) throws IOException, GeneralSecurityException {
    return forNames(folder, Arrays.stream(nodes).map(AgentTrust::serverName).toArray(String[]::new));
  }

  static TestTls forNames(Path folder, String... dnsNames) throws IOException, GeneralSecurityException {
    String dnsName = dnsNames[0];
    Path store = folder.resolve(dnsName + ".p12");
    Process keytool = new ProcessBuilder(
        Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
        "-genkeypair", "-alias", "agent", "-keyalg", "EC", "-dname", "CN=" + dnsName, "-ext", "SAN=dns:" + String.join(",dns:", dnsNames),
        "-ext", "BC:critical=ca:true", "-storetype", "PKCS12", "-keystore", store.toString(), "-storepass", PASSWORD)
        .redirectErrorStream(true).start();
    String output = new String(keytool.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    if (!Files.exists(store)) {
      throw new IOException(output);
    }
    KeyStore keys = KeyStore.getInstance("PKCS12");
    try (InputStream content = Files.newInputStream(store)) {
      keys.load(content, PASSWORD.toCharArray());
    }
    KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    factory.init(keys, PASSWORD.toCharArray());
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(factory.getKeyManagers(), null, null);
    Path authority = folder.resolve(dnsName + ".crt");
    String body = Base64.getMimeEncoder().encodeToString(keys.getCertificate("agent").getEncoded());
    Files.writeString(authority, "-----BEGIN CERTIFICATE-----\n" + body + "\n-----END CERTIFICATE-----\n");
    return new TestTls(context, authority);
  }
}
