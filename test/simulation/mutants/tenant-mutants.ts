import type { Mutant } from './mutant.ts';

const noForeignText = 'no text of an owner reaches a sandbox of another owner';

/** Mistakes by which a tenant with kubectl reaches objects of another owner. */
export const tenantMutants = {
  'a reference makes a sandbox of any owner the sandbox of a start': {
    file: 'src/resources/sandbox-owner-references.ts',
    from: 'sandbox.spec.owner === conversation.spec.owner &&\n  sandbox.spec.templateName',
    to: 'sandbox.spec.templateName',
    rule: /no text of an owner reaches a sandbox of another owner|everything settles/,
    tenant: true,
  },
  'a conversation joins a sandbox of any owner': {
    file: 'src/controllers/conversation/start/choose-sandbox.ts',
    from: 'sandbox.metadata.deletionTimestamp !== undefined ||\n    sandbox.spec.owner !== conversation.spec.owner',
    to: 'sandbox.metadata.deletionTimestamp !== undefined',
    rule: noForeignText,
    tenant: true,
  },
} satisfies Readonly<Record<string, Mutant>>;
