import { ownerReferenceTo } from '@conversation-operator/kube/object';
import {
  isInSandbox,
  isMadeFor,
  isNamedBy,
  conversationReferencesOf,
} from '../../../src/resources/sandbox-owner-references.ts';
import type { Sandbox } from '../../../src/resources/sandbox.ts';
import { aConversation, aSandbox } from '../../support/builders.ts';

const conversation = aConversation({
  status: { sandboxName: 'sbx-1', sandboxUID: aSandbox().metadata.uid },
});
const reference = ownerReferenceTo(conversation, { controller: true });
const made = (change: {
  readonly reference?: object;
  readonly metadata?: object;
  readonly spec?: object;
}): Sandbox => {
  const sandbox = aSandbox();
  return {
    ...sandbox,
    metadata: {
      ...sandbox.metadata,
      ownerReferences: [{ ...reference, ...change.reference }],
      ...change.metadata,
    },
    spec: { ...sandbox.spec, ...change.spec },
  };
};

it.each<[string, Sandbox, { made: boolean; named: boolean; inside: boolean }]>([
  ['what the operator makes', made({}), { made: true, named: true, inside: true }],
  [
    'of another owner',
    made({ spec: { owner: 'mallory' } }),
    { made: false, named: false, inside: false },
  ],
  [
    'of another template',
    made({ spec: { templateName: 'other' } }),
    { made: false, named: true, inside: true },
  ],
  [
    'joined by the conversation',
    made({ reference: { controller: false } }),
    { made: false, named: true, inside: true },
  ],
  [
    'for another conversation of the name',
    made({ reference: { uid: 'another' } }),
    { made: false, named: false, inside: true },
  ],
  [
    'for a kind of the same name of another group',
    made({ reference: { apiVersion: 'example.com/v1' } }),
    { made: false, named: false, inside: true },
  ],
  [
    'another sandbox of the name',
    made({ metadata: { uid: 'another' } }),
    { made: true, named: true, inside: false },
  ],
  [
    'of another name',
    made({ metadata: { name: 'sbx-2' } }),
    { made: true, named: true, inside: false },
  ],
])('knows a sandbox %s', (_case, sandbox, expected) => {
  expect({
    made: isMadeFor(conversation, sandbox),
    named: isNamedBy(conversation, sandbox),
    inside: isInSandbox(conversation, sandbox),
  }).toEqual(expected);
});

it('finds no conversation in references to other kinds', () => {
  expect(conversationReferencesOf(made({ reference: { kind: 'SandboxPool' } }))).toEqual([]);
});
