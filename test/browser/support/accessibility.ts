import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Result {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
  }[];
}

/** Violations of WCAG 2.2 A and AA, and of good practice, that axe finds in the page. */
export async function violationsIn(page: Page): Promise<readonly string[]> {
  // The debugger's evaluation is exempt from the policy of the page.
  await page.evaluate(source);
  const { violations } = await page.evaluate<Result>('axe.run()');
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary ?? ''}`),
  );
}
