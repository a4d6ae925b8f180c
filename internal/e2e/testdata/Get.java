import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Gets a URL twice with the client that comes with Java: file of authorities, URL. */
class Get {
	public static void main(String[] args) throws Exception {
		KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
		trusted.load(null, null);
		try (FileInputStream file = new FileInputStream(args[0])) {
			trusted.setCertificateEntry("test", CertificateFactory.getInstance("X.509").generateCertificate(file));
		}
		TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
		managers.init(trusted);
		SSLContext context = SSLContext.getInstance("TLS");
		context.init(null, managers.getTrustManagers(), null);
		HttpClient client = HttpClient.newBuilder().sslContext(context).build();
		for (int i = 0; i < 2; i++) {
			HttpResponse<String> answer = client.send(HttpRequest.newBuilder(URI.create(args[1])).build(), HttpResponse.BodyHandlers.ofString());
			System.out.println(answer.version() + " " + answer.statusCode() + " " + answer.body());
		}
	}
}
