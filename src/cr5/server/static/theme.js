// The colour theme. Not a module, so that it runs before the page is drawn and the wrong colours never flash.

{
  const STORAGE_KEY = "cr5-theme";
  const THEMES = ["auto", "light", "dark"];
  let theme = "auto";

  // The storage may be forbidden; then the choice is not remembered.
  try {
    const stored = localStorage.getItem(STORAGE_KEY);
    if (THEMES.includes(stored)) theme = stored;
  } catch {}

  const apply = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    // For what the browser draws before the style sheet is loaded.
    document.querySelector("meta[name=color-scheme]").content = theme === "auto" ? "light dark" : theme;
  };

  const label = (button) => {
    const text = `Theme: ${theme === "auto" ? "system" : theme}`;
    button.setAttribute("aria-label", text);
    button.dataset.tip = text;
  };

  apply();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    label(button);
    button.addEventListener("click", () => {
      theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
      apply();
      label(button);
      try {
        localStorage.setItem(STORAGE_KEY, theme);
      } catch {}
    });
  });
}
