import { z } from 'zod';
import type { Route } from '../../../src/gateway/http/route.ts';
import { examples } from '../../../src/gateway/openapi/document.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

/** The content of a success, as the document has it. */
interface Content {
  readonly [type: string]: { readonly schema: object; readonly example?: unknown };
}
interface Operation {
  readonly operationId: string;
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content: Content }>>;
}

const gateway = await TestGateway.start();
const document = (await gateway.get('/openapi.json', { key: null })).json as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
};
const page = await gateway.get('/docs', { key: null });
await gateway.stop();

const routes = new Map<string, Route>(
  gateway.gateway.routes.map((route) => [route.operationId, route]),
);
const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));

const mediaOf = (content: Content) => Object.values(content);

describe('the examples of the document', () => {
  it.each(operations.map((operation) => [operation.operationId, operation] as const))(
    'are there, and valid: %s',
    (operationId, { requestBody, responses }) => {
      const route = routes.get(operationId);
      for (const media of mediaOf(requestBody?.content ?? {})) {
        expect(media).toHaveProperty('example');
        // A field that the schema does not have is refused.
        expect(route?.body?.safeParse(media.example).error).toBeUndefined();
      }
      for (const [status, { content }] of Object.entries(responses)) {
        if (Number(status) >= 300) continue;
        for (const [mediaType, media] of Object.entries(content)) {
          expect(media).toHaveProperty('example');
          const answer = route?.responses[Number(status)] ?? z.never();
          const schema = mediaType === 'text/csv' ? z.string().regex(/\r\n$/) : answer;
          // Every field is in the schema, or it would be gone.
          expect(schema.parse(media.example)).toEqual(media.example);
        }
      }
    },
  );

  it('are of no other operation', () => {
    const documented = operations.map(({ operationId }) => operationId);
    expect(Object.keys(examples).filter((id) => !documented.includes(id))).toEqual([]);
  });

  it('are on the page too', () => {
    expect(page.text).toContain('For example:');
    expect(page.text).toContain('Fix the flaky test of the cart.');
  });
});
