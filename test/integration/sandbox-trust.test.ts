import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/eventually.ts';
import { GitServer } from '../support/git-server.ts';
import { readJavaTrustStore } from '../support/java-trust-store.ts';
import { kubectl } from '../support/kubectl.ts';
import { RestUser } from '../support/rest-user.ts';
import { SplitInstallation } from '../support/split-installation.ts';

const folder = mkdtempSync(join(tmpdir(), 'sandbox-trust-'));
const certificate = join(folder, 'ca.crt');
const missing =
  "The ConfigMap company-ca with the key ca.crt does not exist in the sandbox's namespace.";
/** Maximum time for work that takes seconds on an idle machine. */
const patientMs = 120_000;
let host: GitServer;
let secure: Server;
let up: SplitInstallation;
let user: RestUser;

/** Serves the git host with a certificate of its own, which no system knows. */
async function secureHost(): Promise<string> {
  const key = join(folder, 'key.pem');
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
      ...['-keyout', key, '-out', certificate, '-days', '2', '-subj', '/CN=localhost'],
      ...['-addext', 'subjectAltName=DNS:localhost'],
    ],
    { stdio: 'ignore' },
  );
  secure = createServer({ key: readFileSync(key), cert: readFileSync(certificate) });
  secure.on('request', (request, response) => {
    const { method, url = '', headers } = request;
    const passed = httpRequest(`${host.url}${url}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    request.pipe(passed);
  });
  secure.listen(0, '127.0.0.1');
  await once(secure, 'listening');
  return `https://localhost:${(secure.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  host = await GitServer.start({
    repositories: { 'acme/open': { files: { 'README.md': 'open\n' } } },
  });
  const hosts = JSON.stringify({ forgejo: await secureHost() });
  up = await SplitInstallation.start(mkdtempSync(join(folder, 'data-')), {
    env: { GIT_HOSTS: hosts, GIT_CHECK: 'false' },
  });
  up.addOperator('one', { SANDBOX_TRUST_CONFIG_MAP: 'company-ca' });
  user = new RestUser(up);
});
afterAll(async () => {
  await up.stop();
  secure.closeAllConnections();
  secure.close();
  await host.stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

it('a start names the ConfigMap that is missing, and with it clones from a host with that certificate', async () => {
  const message =
    '```sh\nenv | grep -E "_CA|SSL_CERT|JAVA" | sort; grep -c BEGIN "$NODE_EXTRA_CA_CERTS"\n```';
  const repository = { selected_repository: 'acme/open' };
  const without = await user.start(message, repository);
  expect(await user.over(without.id, patientMs)).toMatchObject({ status: 'ERROR', error: missing });
  await kubectl(up.kubeconfig, ['create', 'configmap', 'company-ca', `--from-file=${certificate}`]);
  const { id } = await user.start(message, repository);
  const task = await user.over(id, patientMs);
  expect(task).toMatchObject({ status: 'READY' });
  const conversation = task.app_conversation_id ?? '';
  await eventually(
    'the run is over',
    async () => (await user.conversation(conversation)).execution_status === 'finished',
    patientMs,
  );
  const { body } = await user.call('GET', `/api/v1/conversation/${conversation}/events/search`);
  const said = JSON.stringify(body);
  for (const name of ['CURL_CA_BUNDLE', 'GIT_SSL_CAINFO', 'REQUESTS_CA_BUNDLE', 'SSL_CERT_FILE'])
    expect(said).toMatch(new RegExp(`${name}=\\S+/all\\.crt`));
  expect(said).toMatch(/NODE_EXTRA_CA_CERTS=\S+\/added\.crt/);
  expect(said).toMatch(/JAVA_TOOL_OPTIONS=-Djavax\.net\.ssl\.trustStore=\S+\/cacerts/);
  const [, mounted = ''] = /NODE_EXTRA_CA_CERTS=(\S+)\/added\.crt/.exec(said) ?? [];
  const store = readJavaTrustStore(readFileSync(join(mounted, 'cacerts')), 'changeit');
  expect([...store.values()].at(-1)?.raw).toEqual(
    new X509Certificate(readFileSync(certificate)).raw,
  );
});
