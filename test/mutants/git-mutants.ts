import type { TestedMutant } from './tested-mutant.ts';

const working = {
  file: 'src/gateway/callback-server/working-conversations.ts',
  test: 'test/unit/gateway/callback-server/working-conversations.test.ts',
} as const;
const handler = {
  file: 'src/gateway/git/git-handler.ts',
  test: 'test/unit/gateway/git/git-handler.test.ts',
} as const;
const pushes = {
  file: 'src/gateway/git/push-relay.ts',
  test: 'test/unit/gateway/git/git-handler.test.ts',
  name: 'passes only if it spares the default branch',
} as const;
const privateHost = {
  file: 'src/gateway/git/private-host.ts',
  test: 'test/unit/gateway/git/private-host.test.ts',
} as const;
const appClient = {
  file: 'src/gateway/git/github-app-client.ts',
  test: 'test/unit/gateway/git/github-app-client.test.ts',
} as const;
const advertisement = { test: 'packages/git/test/advertisement.test.ts' } as const;
const keyRing = {
  file: 'src/gateway/auth/key-ring.ts',
  test: 'test/unit/gateway/auth/key-ring.test.ts',
} as const;
const pullRequests = {
  file: 'src/gateway/pull-requests/pull-requests.ts',
  test: 'test/unit/gateway/pull-requests/pull-requests.test.ts',
} as const;
const hostAccess = {
  ...{ file: 'src/gateway/pull-requests/host-access.ts', test: pullRequests.test },
} as const;
const pullRequestRecords = {
  ...{ file: 'src/gateway/pull-requests/pull-request-records.ts', test: pullRequests.test },
} as const;
const outcomes = {
  test: 'test/unit/gateway/conversations/messages.unknown-outcomes.test.ts',
} as const;
const storeRetries = {
  file: 'packages/object-store/src/s3-client.ts',
  test: 'packages/object-store/test/s3-store.test.ts',
  name: 'waits as a Retry-After',
} as const;
const proxies = {
  file: 'packages/outward/src/proxies.ts',
  test: 'packages/outward/test/proxies.test.ts',
} as const;
const outward = { test: 'packages/outward/test/outward.test.ts' } as const;
const trustFile = {
  file: 'packages/outward/src/trust-file.ts',
  test: 'packages/outward/test/trust-file.test.ts',
} as const;
const leftBehind = { test: 'test/unit/support/left-behind.test.ts' } as const;

/**
 * Mistakes in git, keys, and calls of other servers. Each name is the mistake as a sentence.
 */
export const gitMutants: Readonly<Record<string, TestedMutant>> = {
  'requests for credentials of an instance go to a proxy': {
    ...proxies,
    from: "ownAddresses.addSubnet('169.254.0.0', 16);",
    to: '',
    name: 'has none, whatever NO_PROXY says',
  },
  'a host of NO_PROXY is called by the proxy': {
    ...proxies,
    from: 'isOwn(host.name) || proxies.noProxy(host) ?',
    to: 'isOwn(host.name) ?',
    name: 'the proxy of a URL',
  },
  'a tunnel that the proxy has refused counts as the host': {
    ...outward,
    file: 'packages/outward/src/connectors.ts',
    from: 'statusCode >= 200 && statusCode < 300',
    to: 'statusCode >= 200',
    name: 'a proxy that',
  },
  'connections never see new certificates': {
    ...outward,
    file: 'packages/outward/src/connectors.ts',
    from: 'if (current !== context) {',
    to: 'if (current === undefined) {',
    name: 'follows a change of the certificates',
  },
  'a file without certificates takes the place of a good one': {
    ...trustFile,
    from: "if (blocks.length === 0) throw new Error('the file has no certificates as PEM');",
    to: '',
    name: 'keeps the last good certificates',
  },
  'a paused sandbox has conversations at work': {
    ...working,
    from: 'if (spec.replicas !== 1) return [];',
    to: '',
    name: 'no conversation is at work in a paused sandbox',
  },
  'a conversation of another owner is at work in a sandbox': {
    ...working,
    from: 'conversation.spec.owner === spec.owner &&',
    to: '',
    name: 'of another owner',
  },
  'a conversation without the UID of its sandbox is at work in any of the name': {
    ...working,
    from: 'conversation.status?.sandboxUID === metadata.uid',
    to: '(conversation.status?.sandboxUID ?? metadata.uid) === metadata.uid',
    name: 'that does not say which sandbox of the name',
  },
  'a conversation without a start is at work': {
    ...working,
    from: "'PREPARING_REPOSITORY', 'SETTING_UP_SKILLS'",
    to: "undefined, 'PREPARING_REPOSITORY', 'SETTING_UP_SKILLS'",
    name: 'without a start',
  },
  'a template without a list of readable repositories opens all of them': {
    ...handler,
    from: 'settings?.readable?.includes(grant.repository) === true',
    to: 'settings?.readable?.includes(grant.repository) !== false',
    name: 'a template that names no repository',
  },
  'a sandbox without a conversation reads what its template names': {
    ...handler,
    from: 'found?.some((each) => this.#providerOf(each) === grant.provider) === true',
    to: 'found?.every((each) => this.#providerOf(each) === grant.provider) === true',
    name: 'no conversation',
  },
  'a repository that the template names is read from any host': {
    ...handler,
    from: 'found?.some((each) => this.#providerOf(each) === grant.provider) === true',
    to: 'found !== undefined',
    name: 'a conversation whose repository is on another host',
  },
  'a conversation about a repository opens the one of this name on each host': {
    ...handler,
    from: 'conversation.spec.repository?.name === repository && this.#providerOf(conversation) === provider',
    to: 'conversation.spec.repository?.name === repository',
    name: 'a conversation about the repository of this name on another host',
  },
  'a conversation without a repository counts as one on the default host': {
    ...handler,
    from: 'return repository && (repository.provider ?? this.#options.defaultProvider);',
    to: 'return repository?.provider ?? this.#options.defaultProvider;',
    name: 'a conversation without a repository',
  },
  'a sandbox that is being deleted still opens its repositories': {
    ...handler,
    from: 'isGood && sandbox?.metadata.deletionTimestamp === undefined ? sandbox',
    to: 'isGood ? sandbox',
    name: 'a deletion under way',
  },
  'a sandbox without a template pushes': {
    ...handler,
    from: 'template === undefined || !policyOf(grant.repository).enabled',
    to: '!policyOf(grant.repository).enabled',
    name: 'there is no template, a push begins',
  },
  'a request of git keeps its place after a good end': {
    ...handler,
    from: '} finally { release(); }',
    to: '} finally { void release; }',
    name: 'leaves no timer and no place behind',
  },
  'a push passes where the git host does not say which branches there are': {
    ...pushes,
    from: "if (refs === undefined) throw new Refusal('the git host does not say which branch is the default one; try again');",
    to: 'if (refs === undefined) return { conversation };',
  },
  'a push passes to a git host without HEAD': {
    ...pushes,
    from: "if (!isEmpty && defaultBranch === undefined) throw new Refusal('the git host does not say which branch is the default one');",
    to: '',
  },
  'a repository without a default branch counts as empty': {
    ...pushes,
    from: 'const isEmpty = refs.branches.length === 0;',
    to: 'const isEmpty = refs.defaultBranch === undefined;',
  },
  'push options reach the git host': {
    file: 'src/gateway/git/push-relay.ts',
    from: '...(push.options === undefined ? [] : [optionsRefusal(push.options)]),',
    to: '',
    test: 'test/integration/gateway/git-push.test.ts',
    name: 'with push options is refused with their names',
  },
  'a capability with a value counts as another one': {
    file: 'packages/git/src/receive-pack.ts',
    from: "if (names.some((name) => name.includes('=') && flags.has(name.split('=', 1)[0] ?? '')))",
    to: 'if (names.some((name) => flags.has(`${name}=`)))',
    test: 'packages/git/test/receive-pack.test.ts',
    name: 'has no value of the capability push-options',
  },
  'an exception holds for one spelling of a repository': {
    file: 'src/resources/git-settings.ts',
    from: 'withoutGitEnding(repository).toLowerCase()',
    to: 'repository',
    test: 'test/unit/gateway/git/push-policy.test.ts',
    name: 'of alice for Acme/SHOP',
  },
  'a renamed repository evades the exceptions of its new name': {
    file: 'src/gateway/git/push-relay.ts',
    from: '[grant.repository, refs.repository]',
    to: '[grant.repository]',
    test: 'test/integration/gateway/git-push.test.ts',
    name: 'under each of its names',
  },
  'a command to the host behind spaces is no command': {
    file: 'src/gateway/pull-requests/pull-requests.ts',
    from: '/^([[\\s\\p{Cc}\\p{Cf}]--\\n]*)',
    to: '/^()',
    test: 'test/unit/gateway/pull-requests/pull-requests.quick-actions.test.ts',
    name: 'behind spaces',
  },
  'a command to the host behind a form feed is no command': {
    file: 'src/gateway/pull-requests/pull-requests.ts',
    from: '[\\v\\f\\u{1c}',
    to: '[\\v\\u{1c}',
    test: 'test/unit/gateway/pull-requests/pull-requests.quick-actions.test.ts',
    name: 'wherever a host ends',
  },
  'a comment is passed on as the agent wrote it': {
    ...pullRequests,
    from: 'api.comment(target, known, withoutQuickActions(body))',
    to: 'api.comment(target, known, body)',
    name: 'is escaped where the host would obey it',
  },
  'a renamed repository has the policy of its old name alone': {
    ...hostAccess,
    from: 'const policies = [policy, policyOf(presentName)];',
    to: 'const policies = [policy];',
    name: 'of the name that the host reports',
  },
  'a lost answer to a comment counts as refused': {
    ...pullRequests,
    from: "error instanceof HostApiError && error.code !== 'unavailable';",
    to: 'error instanceof HostApiError;',
    name: 'that the host answers with unavailable',
  },
  'reads of a pull request have no budget': {
    ...hostAccess,
    from: 'charge: () => this.#budget.take({ owner, sandbox }),',
    to: '',
    name: 'bounds the requests of a sandbox to the host',
  },
  'reads of git hosts for starts have no budget': {
    file: 'src/gateway/git/remote-reader.ts',
    from: 'this.#budget.take({ owner });',
    to: '',
    test: 'test/unit/gateway/git/remote-reader.test.ts',
    name: 'counts for the hour of its owner',
  },
  'refused pushes have no budget': {
    ...handler,
    from: 'this.#budget.take(holder);',
    to: "if (service === 'git-upload-pack' || part === 'references') this.#budget.take(holder);",
    name: 'pushes that are refused are bounded',
  },
  'a range of commits is the name of a branch': {
    file: 'packages/git/src/ref-list.ts',
    from: '\\.\\.|@\\{',
    to: '@\\{',
    test: 'test/unit/gateway/http/fields.git-names.test.ts',
    name: '"a..b"',
  },
  'push options are offered to git': {
    file: 'src/gateway/git/git-relay.ts',
    from: 'new Set([pushOptions])',
    to: 'new Set()',
    test: 'test/integration/gateway/git-push.test.ts',
    name: 'has no push options, by which',
  },
  'a push without a report counts as rejected': {
    file: 'src/gateway/git/push-relay.ts',
    from: "return isDenied || report.rejected.has(ref) ? 'Rejected' : 'Unknown';",
    to: "return 'Rejected';",
    test: 'test/integration/gateway/git-push.test.ts',
    name: 'to a host that compresses its report',
  },
  'a push that stalls keeps its place': {
    file: 'src/gateway/git/push-relay.ts',
    from: 'addAbortSignal(transfer.late, request)',
    to: 'addAbortSignal(new AbortController().signal, request)',
    test: 'test/integration/gateway/git-push.test.ts',
    name: 'that stalls after its first byte',
  },
  'a push follows a redirect of the past': {
    file: 'src/gateway/git/push-relay.ts',
    from: 'Readable.from(body, { objectMode: false }), at)',
    to: 'Readable.from(body, { objectMode: false }))',
    test: 'test/integration/gateway/git-push.test.ts',
    name: 'goes where its branches were read',
  },
  'a refused push is not in the audit': {
    file: 'src/gateway/git/push-relay.ts',
    from: 'records.refuse({ sandbox, conversation, grant, push, reasons: textsOf(reasons) });',
    to: 'void records;',
    test: 'test/unit/gateway/git/git-handler.test.ts',
    name: 'is in the audit',
  },
  'a push keeps its place by one byte at a time': {
    file: 'src/gateway/git/git-relay.ts',
    from: 'await pace.during(() => pieces.next())',
    to: 'await pieces.next()',
    test: 'test/unit/gateway/git/git-handler.test.ts',
    name: 'must not arrive byte by byte',
  },
  'a clone keeps its place by one byte at a time': {
    file: 'src/gateway/git/git-relay.ts',
    from: "await pace.during(() => once(response, 'drain', { signal }))",
    to: "await once(response, 'drain', { signal })",
    test: 'test/unit/gateway/git/git-relay.test.ts',
    name: 'a clone that takes 16 KiB',
  },
  'a git host that fails counts as one that opens the repository': {
    ...privateHost,
    from: "return status === 200 && mediaTypeOf(contentType) !== 'text/html';",
    to: "return (status === 200 || status >= 500) && mediaTypeOf(contentType) !== 'text/html';",
    name: 'is out of order for others',
  },
  'a redirect to a page to sign in counts as an open repository': {
    ...privateHost,
    from: "error.reason === 'redirect') return false",
    to: "error.reason === 'redirect') return true",
    name: 'leads others to a page to sign in',
  },
  'a push without a credential reaches the git host': {
    ...privateHost,
    from: "if (credential === undefined && service === 'git-receive-pack') return { kind: 'locked' };",
    to: '',
    name: 'a push without a credential',
  },
  'what was found by a credential serves requests without one': {
    ...privateHost,
    from: "credential === undefined ? '' : fingerprintOf(credential)",
    to: "''",
    name: 'a pack',
  },
  'what was found on one host serves requests for another': {
    ...privateHost,
    from: "provider, repository, service, credential === undefined ? ''",
    to: "repository, service, credential === undefined ? ''",
    name: 'gets no use of what was found on another one',
  },
  'the answer to the check of access keeps its connection': {
    ...privateHost,
    from: 'body.destroy(); // A login page',
    to: '// A login page',
    name: 'keeps no connection',
  },
  'a credential that is withheld is replaced by that of the next source': {
    file: 'src/gateway/git/hosts.ts',
    from: "if (found === 'withheld') return undefined; if (found !== 'absent') return found;",
    to: "if (typeof found !== 'string') return found;",
    test: 'test/unit/gateway/git/hosts.test.ts',
    name: 'a source that withholds it',
  },
  'findings of one git host are those of another': {
    file: 'src/gateway/git/remote-reader.ts',
    from: "host.provider, repository, credential === undefined ? ''",
    to: "repository, credential === undefined ? ''",
    test: 'test/unit/gateway/git/remote-reader.finding-cache.test.ts',
    name: 'distinguishes hosts',
  },
  'a token of a GitHub App for all repositories is taken': {
    ...appClient,
    from: "z.literal('selected')",
    to: 'z.string()',
    name: 'among all of the installation',
  },
  'a token of a GitHub App for no repository is taken': {
    ...appClient,
    from: 'names.length === 1 && names[0]?.toLowerCase() === name.toLowerCase()',
    to: 'names.every((each) => each.toLowerCase() === name.toLowerCase())',
    name: 'in an empty list',
  },
  'the end of a token of a GitHub App is in seconds': {
    ...appClient,
    from: 'return { token, expiresAt: Date.parse(expiresAt) };',
    to: 'return { token, expiresAt: Date.parse(expiresAt) / 1000 };',
    name: 'with the time of its end',
  },
  'a failure of GitHub counts as a refusal of the App': {
    ...appClient,
    from: "return status === 404 ? 'not-found' : 'unavailable';",
    to: "return status === 404 ? 'not-found' : 'denied';",
    name: 'GitHub answers 503',
  },
  'a symbolic branch names the default branch in version 0': {
    ...advertisement,
    file: 'packages/git/src/advertisement.ts',
    from: 'symref=HEAD:(\\S+)',
    to: 'symref=[^\\s:]+:(\\S+)',
    name: 'version 0 with symbolic branches beside HEAD',
  },
  'a symbolic branch names the default branch in version 2': {
    ...advertisement,
    file: 'packages/git/src/advertisement.ts',
    from: "if (name === 'HEAD' && target !== undefined)",
    to: 'if (target !== undefined)',
    name: 'a symbolic one is no HEAD',
  },
  'the key of a link opens requests': {
    ...keyRing,
    from: 'spec.signIn === signIn && isEqual(spec.sha256, hash)',
    to: 'isEqual(spec.sha256, hash)',
    name: 'opens no request',
  },
  'a key of another namespace opens requests': {
    ...keyRing,
    from: 'key.metadata.namespace !== this.#options.namespace || !accepts(key)',
    to: '!accepts(key)',
    name: 'of another namespace',
  },
  'a key outlives its maker where another one has the name': {
    ...keyRing,
    from: 'maker?.metadata.uid !== issuedBy.uid || maker.metadata.deletionTimestamp',
    to: 'maker === undefined || maker.metadata.deletionTimestamp',
    name: 'is an orphan only where',
  },
  'a pull request is opened with a credential for any repository': {
    ...hostAccess,
    from: 'await credentials.of(spec.owner, provider, name)',
    to: 'await credentials.of(spec.owner, provider)',
    name: 'takes the branch of the last accepted push',
  },
  'a pull request is opened without a token': {
    ...hostAccess,
    from: 'if (credential?.token === undefined)',
    to: 'if (credential === undefined)',
    name: 'an owner whose credential is no token',
  },
  'a pull request of the same number elsewhere is the same': {
    ...pullRequestRecords,
    from: 'one.number === other.number && one.provider === other.provider && one.repository === other.repository',
    to: 'one.number === other.number',
    name: 'of the same number in another place',
  },
  'a pull request is recorded in another conversation of the name': {
    ...pullRequestRecords,
    from: "if (stored.metadata.uid !== uid) throw notFound('conversation'); return stored;",
    to: 'return stored;',
    name: 'was made again under its name',
  },
  'an older pull request is announced after an answer was lost': {
    ...pullRequests,
    from: "error.code === 'unavailable' && opened.title === wanted.title",
    to: "error.code === 'unavailable'",
    name: 'whose title differs',
  },
  'a write that ends with 5xx was not executed': {
    ...outcomes,
    file: 'packages/kube/src/errors.ts',
    from: '? error.status >= 500 : error instanceof TransportError',
    to: '? false : error instanceof TransportError',
    name: 'status 500',
  },
  'a time-out of the API server was no write': {
    ...outcomes,
    file: 'packages/kube/src/errors.ts',
    from: '? error.status >= 500 : error instanceof TransportError',
    to: '? error.status === 500 : error instanceof TransportError',
    name: 'status 504',
  },
  'a refused write may have been executed': {
    ...outcomes,
    file: 'packages/kube/src/errors.ts',
    from: '? error.status >= 500 : error instanceof TransportError',
    to: '? error.status >= 400 : error instanceof TransportError',
    name: 'was not executed',
  },
  'a deletion that ends with 5xx fails although the object is gone': {
    ...outcomes,
    file: 'src/gateway/lookup/stored.ts',
    from: '(mayBeExecuted(error) && isGone(',
    to: '(error instanceof TypeError && isGone(',
    name: 'is a deletion that is done',
  },
  'a message whose write ends with 5xx is refused': {
    ...outcomes,
    file: 'src/gateway/conversations/messages.ts',
    from: 'if (mayBeExecuted(error)) lost = error; else',
    to: '',
    name: 'stores a message once',
  },
  'the seconds of Retry-After are milliseconds': {
    file: 'packages/kube/src/transport.ts',
    from: 'seconds === undefined ? undefined : seconds * 1000',
    to: 'seconds',
    test: 'packages/kube/test/transport.test.ts',
    name: 'reads the Retry-After',
  },
  'the seconds of a Status are milliseconds': {
    file: 'packages/kube/src/errors.ts',
    from: 'body.details.retryAfterSeconds * 1000',
    to: 'body.details.retryAfterSeconds',
    test: 'packages/kube/test/transport.test.ts',
    name: 'takes a Status',
  },
  'the seconds of the object store are milliseconds': {
    ...storeRetries,
    from: 'Math.min(Number(value) * 1000, maxRetryAfterMs)',
    to: 'Math.min(Number(value), maxRetryAfterMs)',
  },
  'the object store decides how long a call waits': {
    ...storeRetries,
    from: 'Math.min(Number(value) * 1000, maxRetryAfterMs)',
    to: 'Number(value) * 1000',
  },
  'a call of the API server keeps the timer of its deadline': {
    ...leftBehind,
    file: 'packages/kube/src/transport.ts',
    from: '} finally { timer.cancel(); }',
    to: '} finally { void timer; }',
    name: 'a call of the API server leaves nothing behind that has ended well',
  },
  'a round trip to the API server keeps its listener': {
    ...leftBehind,
    file: 'packages/kube/src/round-trip.ts',
    from: 'this.#options.signal.removeEventListener',
    to: 'void this.#options.signal.removeEventListener; void',
    name: 'a round trip to the API server leaves nothing behind that has ended well',
  },
  'a call of an agent keeps its deadline after the last byte': {
    ...leftBehind,
    file: 'packages/http/src/client/bounded-client.ts',
    from: "body.once('close', () => deadline.end());",
    to: '',
    name: 'a bounded call leaves nothing behind that has ended well',
  },
  'a read of an agent keeps its place': {
    ...leftBehind,
    file: 'src/gateway/history/agent-reads.ts',
    from: 'release?.(); left.removeEventListener',
    to: 'left.removeEventListener',
    name: 'a read of an agent leaves nothing behind that has ended well',
  },
  'a read of an agent keeps its listener': {
    ...leftBehind,
    file: 'src/gateway/history/agent-reads.ts',
    from: "left.removeEventListener('abort', leave);",
    to: '',
    name: 'a read of an agent leaves nothing behind that has ended well',
  },
  'a read of an agent keeps the timer of the first byte': {
    ...leftBehind,
    file: 'src/gateway/history/agent-reads.ts',
    from: '} finally { timer.cancel(); }',
    to: '} finally { void timer; }',
    name: 'a read of an agent leaves nothing behind that has ended well',
  },
  'a read of an archive keeps its place': {
    ...leftBehind,
    file: 'src/gateway/history/history-reads.ts',
    from: 'release?.(); timer.cancel();',
    to: 'timer.cancel();',
    name: 'a read of an archive leaves nothing behind that has ended well',
  },
  'a read of an archive keeps its timer': {
    ...leftBehind,
    file: 'src/gateway/history/history-reads.ts',
    from: 'release?.(); timer.cancel();',
    to: 'release?.();',
    name: 'a read of an archive leaves nothing behind that has ended well',
  },
  'a read of an archive keeps its listener': {
    ...leftBehind,
    file: 'src/gateway/history/history-reads.ts',
    from: "left.removeEventListener('abort', leave);",
    to: '',
    name: 'a read of an archive leaves nothing behind that has ended well',
  },
  'a client that was answered keeps its listener': {
    ...leftBehind,
    file: 'src/gateway/history/agent-reads.ts',
    from: "response.off('close', leave);",
    to: '',
    name: 'work until a client leaves',
  },
  'a call of the object store keeps its listener': {
    ...leftBehind,
    file: 'packages/object-store/src/calls.ts',
    from: "signal?.removeEventListener('abort', onAbort);",
    to: '',
    name: 'a call of the object store leaves nothing behind that has ended well',
  },
  'a call of the object store keeps its timer': {
    ...leftBehind,
    file: 'packages/object-store/src/calls.ts',
    from: 'timer.cancel();',
    to: '',
    name: 'a call of the object store leaves nothing behind that has ended well',
  },
  'a transfer of git that is over ends at its maximum duration': {
    ...leftBehind,
    file: 'src/gateway/git/git-relay.ts',
    from: 'this.#total.cancel();',
    to: '',
    name: 'a transfer of git leaves nothing behind that has ended well',
  },
  'a transfer of git that is over keeps its idle timer': {
    ...leftBehind,
    file: 'src/gateway/git/git-relay.ts',
    from: 'this.#idle.stop();',
    to: '',
    name: 'a transfer of git leaves nothing behind that has ended well',
  },
  'a wait for a share that was granted keeps its timer': {
    ...leftBehind,
    file: 'packages/base/src/shares.ts',
    from: 'timer.cancel(); signal?.removeEventListener',
    to: 'signal?.removeEventListener',
    name: 'a wait for a share leaves nothing behind that has ended well',
  },
  'a delay that is over keeps its listener': {
    ...leftBehind,
    file: 'packages/base/src/clock.ts',
    from: "signal?.removeEventListener('abort', onAbort); resolve();",
    to: 'resolve();',
    name: 'a delay leaves nothing behind that has ended well',
  },
};
