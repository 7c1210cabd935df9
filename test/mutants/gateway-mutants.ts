import type { TestedMutant } from './tested-mutant.ts';

const bounds = { test: 'test/integration/gateway/stored-bounds.test.ts' };
const recreated = { test: 'test/integration/gateway/recreated-objects.test.ts' };
const pushes = { test: 'test/unit/gateway/git/push-records.test.ts' };
const names = { test: 'test/unit/gateway/errors/validation.test.ts' };
const tags = { test: 'test/integration/gateway/entity-tags.test.ts' };
const callbacks = { test: 'test/integration/gateway/callback-server.test.ts' };

/** Mistakes in requests of the gateway. Each name is the mistake as a sentence. */
export const gatewayMutants: Readonly<Record<string, TestedMutant>> = {
  'a start takes a longer system message than a conversation can have': {
    file: 'src/gateway/presenters/start-fields.ts',
    ...bounds,
    from: 'optional(z.string().max(16_384))',
    to: 'optional(z.string())',
    name: 'refused beyond it as body.system_message_suffix',
  },
  'a start takes one pull request more than a conversation can name': {
    file: 'src/gateway/presenters/start-fields.ts',
    ...bounds,
    from: 'z.array(z.int().min(1)).max(100)',
    to: 'z.array(z.int().min(1)).max(101)',
    name: 'refused beyond it as body.pr_number',
  },
  'settings take more arguments of a server than can be stored': {
    file: 'src/gateway/settings/settings-change.ts',
    ...bounds,
    from: 'z.array(label(1024)).max(32)',
    to: 'z.array(label(1024)).max(64)',
    name: 'refused beyond it as body.mcp_config.docs.args',
  },
  'the legacy interface takes any number of images': {
    file: 'src/gateway/conversations/legacy.ts',
    ...bounds,
    from: '.max(maxMessageBytes)).max(20)',
    to: '.max(maxMessageBytes))',
    name: 'refused beyond it as body.image_urls',
  },
  'a text that is too long is refused for characters that it does not have': {
    file: 'src/gateway/http/fields.ts',
    ...bounds,
    from: '.max(maxLength, { abort: true })',
    to: '.max(maxLength)',
    name: 'refused beyond it as body.trigger',
  },
  'a parameter that nothing reads is ignored': {
    file: 'src/gateway/errors/validation.ts',
    ...names,
    from: 'for (const error of unknownParameters(schemas.query, input.query)) errors.push(error);',
    to: '',
    name: 'is refused in a query, also where none is read',
  },
  'a body is ignored where none is read': {
    file: 'src/gateway/errors/validation.ts',
    ...names,
    from: "if (schemas.body === undefined) valueOf('body', noBody);",
    to: '',
    name: 'is refused in a body where none is read',
  },
  'an answer lists as many unknown fields as a request has': {
    file: 'src/gateway/errors/validation.ts',
    ...names,
    from: 'all.length <= maxErrors',
    to: 'all.length >= 0',
    name: 'does not make the answer larger than the request',
  },
  'an answer repeats what a terminal obeys in the name of a field': {
    file: 'src/gateway/errors/validation.ts',
    ...names,
    from: '`${text}.${shownName(String(step))}`',
    to: '`${text}.${String(step)}`',
    name: 'with characters that a terminal obeys, and without end',
  },
  'a body that a client has is sent again': {
    file: 'src/gateway/http/send-bytes.ts',
    ...tags,
    from: 'if (!response.req.fresh)',
    to: 'if (!response.req.stale)',
    name: 'is sent once to a client that keeps it',
  },
  'the records of pushes become more than a conversation can have': {
    file: 'src/gateway/git/push-records.ts',
    ...pushes,
    from: '.slice(-maxPushes)',
    to: '',
    name: 'has the last pushes of a conversation',
  },
  'a push is recorded in another conversation of the same name': {
    file: 'src/gateway/git/push-records.ts',
    ...pushes,
    from: 'metadata.uid !== uid',
    to: 'metadata.uid === undefined',
    name: 'is not of a conversation that has been created anew',
  },
  'an address that becomes too long where it is encoded is stored': {
    file: 'src/gateway/git/host-api/fields.ts',
    from: '.pipe(z.string().max(maxPullRequestUrl))',
    to: '',
    test: 'test/unit/gateway/git/host-api/fields.test.ts',
    name: 'becomes too long where it is encoded',
  },
  'a title reaches another conversation of the same name': {
    file: 'src/gateway/conversations/conversations.ts',
    ...recreated,
    from: '{ ...precondition, uid: metadata.uid }',
    to: 'precondition',
    name: 'is not changed by a title',
  },
  'tags reach another conversation of the same name': {
    file: 'src/gateway/conversations/conversations.ts',
    ...recreated,
    from: "refuseMoved('conversation', stored, conversation);",
    to: '',
    name: 'is not changed by tags',
  },
  'a pause reaches another sandbox of the same name': {
    file: 'src/gateway/sandboxes/sandboxes.ts',
    ...recreated,
    from: 'const patch = { metadata: { uid }, spec: { owner: call.owner, replicas: 0 } };',
    to: 'const patch = { spec: { owner: call.owner, replicas: 0 } }; void uid;',
    name: 'is not changed by a pause',
  },
  'a resume reaches another sandbox of the same name': {
    file: 'src/gateway/sandboxes/resume.ts',
    ...recreated,
    from: '{ uid, annotations: {',
    to: '{ annotations: {',
    name: 'is not changed by a resume',
  },
  'a new session key reaches another sandbox of the same name': {
    file: 'src/gateway/sandboxes/sandboxes.ts',
    ...recreated,
    from: "refuseMoved('sandbox', stored, sandbox);",
    to: '',
    name: 'is not changed by a new session key',
  },
  'a deletion reaches another object of the same name': {
    file: 'src/gateway/lookup/stored.ts',
    ...recreated,
    from: 'if (stored === undefined || isGone(stored)) return; refuseMoved(what, stored, known); const { resourceVersion } = stored.metadata; const options = { uid,',
    to: 'if (stored === undefined) return; const { resourceVersion } = stored.metadata; const options = {',
    name: 'is not changed by the deletion of the conversation',
  },
  'a request for the page of a link signs in': {
    file: 'src/gateway/sign-in/routes.ts',
    from: 'sendPage(response, confirmationPage({ owner, present, token, returnTo }), 200);',
    to: 'await signInByLink(token, request, response, returnTo);',
    test: 'test/integration/gateway/sign-in.test.ts',
    name: 'once by a link that was opened before by a scanner',
  },
  'the body of a request of a sandbox has no deadline': {
    file: 'src/gateway/callback-server/callback-server.ts',
    ...callbacks,
    from: 'handler.limitsBody !== true',
    to: 'handler.limitsBody === undefined',
    name: 'ends a body that is late',
  },
  'requests of sandboxes leave no connection to a health check': {
    file: 'src/gateway/callback-server/callback-server.ts',
    ...callbacks,
    from: 'total: maxConnections + additionalConnections',
    to: 'total: maxConnections',
    name: 'is alive while bodies take every connection',
  },
  'a key that a session has made reads the value of a secret': {
    file: 'src/gateway/auth/key-ring.ts',
    from: 'hasSession = true;',
    to: 'hasSession = uids.length === 1;',
    test: 'test/integration/gateway/session-secrets.test.ts',
    name: 'with a key that the session makes',
  },
  'a page reads the value of a secret with a session key': {
    file: 'src/gateway/sandboxes/secrets-of-sandbox.ts',
    from: 'if (chain?.hasSession !== false)',
    to: 'if (principal?.chain.hasSession === true)',
    test: 'test/integration/gateway/session-secrets.test.ts',
    name: 'the session key of a record',
  },
  'a client keeps a download by one byte at a time': {
    file: 'packages/http/src/limits/slow-clients.ts',
    from: 'bytes < (minBytesPerSecond * this.#waitedMs) / 1000',
    to: 'bytes === 0',
    test: 'packages/http/test/limits/slow-clients.pace.test.ts',
    name: 'takes a byte a second',
  },
  'a session outlives the API key that it was opened with': {
    file: 'src/gateway/sign-in/sessions.ts',
    from: 'const session = { owner, role, issuedBy: { name, uid } };',
    to: 'const session = { owner, role, issuedBy: name === uid ? { name, uid } : undefined };',
    test: 'test/integration/gateway/sign-in.test.ts',
    name: 'by the form, until the key is revoked',
  },
};
