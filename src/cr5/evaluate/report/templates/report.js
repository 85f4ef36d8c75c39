for (const th of document.querySelectorAll('.sortable th[data-column]')) {
  const button = document.createElement('button');
  button.textContent = th.textContent;
  button.title = 'sort the pairs';
  th.textContent = '';
  th.append(button);
  button.onclick = () => {
    const table = th.closest('table'), down = th.getAttribute('aria-sort') !== 'descending';
    for (const other of table.querySelectorAll('th[aria-sort]')) other.removeAttribute('aria-sort');
    th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const value = row => parseFloat(row.cells[th.dataset.column].textContent) || -1;
    for (const body of table.tBodies) {
      const rows = [...body.rows];
      if (rows.length > 1) body.append(...rows.sort((a, b) => (down ? 1 : -1) * (value(b) - value(a))));
    }
  };
}
