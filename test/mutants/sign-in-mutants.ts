import type { TestedMutant } from './tested-mutant.ts';

const scopes = { test: 'test/integration/gateway/scopes.test.ts' };
const devices = { test: 'test/integration/gateway/device-login.test.ts' };
const chain = {
  file: 'src/gateway/auth/key-ring.ts',
  test: 'test/unit/gateway/auth/key-ring.chain.test.ts',
};
const identity = {
  file: 'src/gateway/sign-in/identity.ts',
  test: 'test/unit/gateway/sign-in/identity.test.ts',
};
const introspection = { test: 'test/integration/gateway/session-introspection.test.ts' };
const providers = {
  file: 'src/gateway/sign-in/identity-providers.ts',
  test: 'test/integration/gateway/identity-providers.test.ts',
};

const audit = { test: 'test/integration/gateway/audit.test.ts' };
const auditFile = {
  file: 'src/observability/audit-file.ts',
  test: 'test/unit/observability/audit-file.test.ts',
};

/** Mistakes in what keys open, and in whom identity providers sign in. */
export const signInMutants: Readonly<Record<string, TestedMutant>> = {
  'a key opens operations of all scopes but admin': {
    file: 'src/gateway/stages/authenticate.ts',
    ...scopes,
    from: 'if (scope !== undefined) requireScope(chain, scope);',
    to: "if (scope === 'admin') requireScope(chain, scope);",
    name: 'no other scope does: startConversation',
  },
  'a key that only reads is shown the keys of agents': {
    file: 'src/gateway/auth/session-keys.ts',
    ...scopes,
    from: 'if (!reader.opensAgents) return undefined;',
    to: '',
    name: 'shows no session key, which would open the agent',
  },
  'a key makes another one with a scope that it lacks': {
    file: 'src/gateway/keys/keys.ts',
    ...scopes,
    from: 'for (const scope of scopes ?? []) requireScope(principal.chain, scope);',
    to: '',
    name: 'never has the scope that it lacks',
  },
  'a key has scopes that its issuer lacks': {
    ...chain,
    from: 'new Set(spec.scopes.filter((one) => scopes.has(one)))',
    to: 'new Set(spec.scopes)',
    name: 'has the scopes that each of them has',
  },
  'a key starts templates that its issuer may not start': {
    ...chain,
    from: 'spec.templates.filter((one) => templates?.includes(one) !== false)',
    to: 'spec.templates',
    name: 'has the templates that each of them has',
  },
  'a session needs no confirmation of its person': {
    ...chain,
    from: "(confirmed === 'own' && uids.length === 0)",
    to: 'false',
    name: 'needs its own confirmation by default',
  },
  'a rule matches a value that begins as its own': {
    ...identity,
    from: 'found.some((item) => textOf(item) === value)',
    to: 'found.some((item) => textOf(item)?.startsWith(value) === true)',
    name: 'a beginning of a value',
  },
  'a person chooses the owner of a person of another provider': {
    ...identity,
    from: 'if (issuers.some((issuer) => owner.startsWith(`${issuer}:`)))',
    to: 'if (false)',
    name: 'none of another provider',
  },
  'an ID token is accepted whoever has signed it': {
    ...providers,
    from: 'oidc.enableNonRepudiationChecks(configuration);',
    to: '',
    name: 'the signature of another key',
  },
  'a program that polls gets its key again': {
    file: 'src/gateway/sign-in/device-logins.ts',
    ...devices,
    from: 'await client.delete(apiKeys, namespace, name, { uid });',
    to: 'if (answer === undefined) await client.delete(apiKeys, namespace, name, { uid });',
    name: 'waits for a person, and gets a key of that person once',
  },
  'a person guesses codes of programs without end': {
    file: 'src/gateway/sign-in/device-routes.ts',
    ...devices,
    from: 'if (ofOwners.waitMs(owner) > 0)',
    to: 'if (ofOwners.waitMs(owner) < 0)',
    name: 'bounds guesses',
  },
  'a program keeps its key after the sign-out of the person': {
    file: 'src/gateway/sign-in/device-logins.ts',
    ...devices,
    from: '        issuedBy,',
    to: '',
    name: 'loses its key with the session of the person',
  },
  'a condition sees an address that is not verified': {
    ...identity,
    from: 'email === undefined ? rest : { ...rest, email }',
    to: 'claims',
    name: 'of an address that is not verified',
  },
  'conditions take the time that they want': {
    file: 'src/config/claim-expression.ts',
    test: identity.test,
    from: '{ timeout: maxMs }',
    to: '{ timeout: 10_000 }',
    name: 'has a loop in a loop',
  },
  'a session outlives its access token': {
    file: 'src/gateway/sign-in/person-checks.ts',
    ...introspection,
    from: 'await sessions.end(key, response, why);',
    to: '',
    name: 'ends where the token is revoked',
  },
  'the ID token decides where introspection has to': {
    ...providers,
    ...introspection,
    from: "if (settings.recheck !== 'introspection')",
    to: 'if (true)',
    name: 'has the groups in the ID token alone opens nothing',
  },
  'a token is accepted while the API server does not judge it': {
    file: 'src/gateway/sign-in/service-accounts.ts',
    test: 'test/integration/gateway/service-accounts.test.ts',
    from: "does not review a token of a service account', { error });\n      return 'unavailable';",
    to: "does not review a token of a service account', { error });\n      return verified;",
    name: 'is asked to come again while the API server does not answer',
  },
  'clocks may not differ': {
    ...providers,
    from: 'const clockToleranceSeconds = 60;',
    to: 'const clockToleranceSeconds = 0;',
    name: 'where clocks differ',
  },
  'each refusal of a flood has a line in the audit': {
    file: 'src/gateway/audit/refusals.ts',
    ...audit,
    from: 'linesAtOnce: linesOfAddress',
    to: 'linesAtOnce: Infinity',
    name: 'bounds the lines of a flood',
  },
  'each opening of a share has a line in the audit': {
    file: 'src/gateway/sharing/open-shares.ts',
    test: 'test/integration/gateway/sharing.test.ts',
    from: 'linesAtOnce: 1',
    to: 'linesAtOnce: Infinity',
    name: 'writes who opened it to the audit log',
  },
  'the end of a handover is not in the audit': {
    file: 'src/controllers/handover/reconcile.ts',
    test: 'test/simulation/handover/handover-model.test.ts',
    from: "audit('HandoverDone', line);",
    to: '',
    name: 'a handover keeps its promises',
  },
  'the refusals of the last minute are not in the audit': {
    file: 'src/gateway/gateway.ts',
    ...audit,
    from: 'services.refusals.close();',
    to: '',
    name: 'is in its file to the last line',
  },
  'a line that the file of the audit does not get is lost': {
    ...auditFile,
    from: 'fallback.info(message, { ...fields, notWritten: reason });',
    to: '',
    name: 'leaves its lines to the log where the disk is full',
  },
  'a line follows a torn one in the same line of the file': {
    ...auditFile,
    from: 'if (written > 0) isTorn = written < bytes.length;',
    to: '',
    name: 'begins a line of its own',
  },
  'a replica knows the codes of its first master key alone': {
    file: 'src/gateway/sign-in/device-logins.ts',
    ...devices,
    from: 'new Set(this.#sealKeys().map(',
    to: 'new Set(this.#sealKeys().slice(0, 1).map(',
    name: 'stores as a keyed hash alone',
  },
  'each request with a disabled key of a service account is a write': {
    file: 'src/gateway/sign-in/service-accounts.ts',
    test: 'test/integration/gateway/service-accounts.test.ts',
    from: 'lookup.everyApiKey().some((key) => key.metadata.name === name && isLive(key))',
    to: 'false',
    name: 'while its key of the hour is disabled',
  },
};
