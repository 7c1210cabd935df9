import { useComputed } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { usePage } from '../page-state.ts';
import { warningOf } from '../budget-warning.ts';
import { exact } from '../times.ts';
import { Icon } from './icon.tsx';

/** A warning from 80 % of the owner's budget, with the way to the page that has the figures. */
export function BudgetBanner() {
  const { budget, now } = usePage();
  useEffect(() => budget.open(), [budget]);
  // Recomputed every second, and rendered only when it differs.
  const level = useComputed(() => warningOf(budget.report.value?.budget, now.value)?.level);
  const text = useComputed(() => warningOf(budget.report.value?.budget, now.value)?.text);
  const resetsAt = budget.report.value?.budget?.resets_at;
  return (
    <div role="status">
      {level.value !== undefined && resetsAt !== undefined && (
        <p class={`budget-banner ${level.value}`}>
          <Icon name="alert" />
          <span>
            {text.value} It starts again on <time dateTime={resetsAt}>{exact(resetsAt)}</time>.{' '}
            <a href="/usage">Usage</a>
          </span>
        </p>
      )}
    </div>
  );
}
