"""The product's pages, beside Prefect's: overview, ask, results, SQL, review, corpora, costs.

NiceGUI draws them. They are in the process of `vitalfew ui`, below `/vitalfew/`, behind its guard. All data comes
from `vitalfew.library`: a page knows neither files nor tables. `mounting` joins the two applications, `shell` is what
every page has, `parts` are tables, plots and errors; every other module is one page.
"""
