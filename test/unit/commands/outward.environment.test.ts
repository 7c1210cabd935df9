import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { outwardEnvironment, withEnvironment } from '../../../src/commands/outward.ts';
import { DataFolder } from '../../../src/commands/data-folder.ts';
import { readUpConfig } from '../../../src/config/up.ts';
import { privateAuthority } from '../../support/private-authority.ts';

let path: string;
beforeEach(() => {
  path = mkdtempSync(join(tmpdir(), 'agent-environment-'));
});
afterEach(() => rmSync(path, { recursive: true, force: true }));
const of = (environment: NodeJS.ProcessEnv) =>
  outwardEnvironment(readUpConfig(environment), new DataFolder(join(path, 'data')));

it('is empty without settings, and NO_PROXY alone is none', () => {
  expect(of({})).toEqual({});
  expect(of({ NO_PROXY: '.corp.test' })).toEqual({});
});

it('has the proxies in both spellings, and never leads to this machine by them', () => {
  const noProxy = '.corp.test,10.0.0.0/8,localhost,127.0.0.1,127.0.0.0/8,::1';
  expect(
    of({
      https_proxy: 'http://us:er@proxy.test:1',
      HTTP_PROXY: 'proxy.test:2',
      NO_PROXY: '.corp.test, 10.0.0.0/8',
    }),
  ).toEqual({
    HTTPS_PROXY: 'http://us:er@proxy.test:1',
    https_proxy: 'http://us:er@proxy.test:1',
    HTTP_PROXY: 'http://proxy.test:2',
    http_proxy: 'http://proxy.test:2',
    NO_PROXY: noProxy,
    no_proxy: noProxy,
    NODE_USE_ENV_PROXY: '1',
  });
});

it('names a file with the certificates of TRUST_FILE beside the public ones', () => {
  const { ca } = privateAuthority(['git.example.test']);
  writeFileSync(join(path, 'ca.crt'), ca);
  const { GIT_SSL_CAINFO: bundle = '', ...others } = of({ TRUST_FILE: join(path, 'ca.crt') });
  const text = readFileSync(bundle, 'utf8');
  expect(text).toContain(ca.trim());
  expect(text).toContain(rootCertificates[0]);
  expect(others).toEqual({
    TRUST_FILE: join(path, 'ca.crt'),
    NODE_EXTRA_CA_CERTS: bundle,
    SSL_CERT_FILE: bundle,
    CURL_CA_BUNDLE: bundle,
    REQUESTS_CA_BUNDLE: bundle,
  });
});

it('gives way to variables of a program', () => {
  const programs = { a: { command: ['a'] }, b: { command: ['b'], env: { HTTPS_PROXY: 'own' } } };
  expect(withEnvironment(programs, { HTTPS_PROXY: 'all' })).toEqual({
    a: { command: ['a'], env: { HTTPS_PROXY: 'all' } },
    b: { command: ['b'], env: { HTTPS_PROXY: 'own' } },
  });
});
